"""Plays the documented examples on a real control plane, and compares the observed state with the expected one.

`python -m controlplane.scenarios [NAME …]` (or `make examples`) plays `examples/scenarios/NAME.yaml` with the files of
`examples/NAME`, each on its own control plane. It ends with status 1 if anything differs. If a scenario names other
projects' operators, the real operators run beside it. They are built if they are not in the cache.
"""

import fnmatch
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from controlplane import operators
from controlplane.control_plane import ControlPlane, Options
from controlplane.deployment import Deployment
from controlplane.operator_processes import running
from controlplane.programs.binaries import Binaries, find_binaries
from controlplane.recording import Recorder, WatchEvent
from controlplane.running.stages import GOES_ON
from kube.names import natural_key

EXAMPLES = Path(__file__).parent.parent / "examples"
PATIENCE_SECONDS = 300.0
_POLL_SECONDS = 0.2


class Act(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """One step of a scenario: files that are applied in order, and the expected state after that.

    Pods are named by patterns (`pi-*`), in any namespace. A file of an operator's module is written `operator:path`.
    - `nodes`: the nodes of the matching pods, in the order of the pods' names (with `anyOrder`: sorted).
    - `pending`: the matching pods have no node, and their condition contains this text.
    - `nominated`: the nodes that were nominated for the matching pods during the act.
    - `said`: a text that the condition of each matching pod contained during the act.
    - `events`: a text that an event on the object of this name contains, in small letters.
    - `victims`: the pods that were evicted in this act.
    - `delete`: files, or `kind/name`s, that are deleted before anything is applied. The operators of the act before
    still run then. With `operators`, the act waits until all dependent objects are gone.
    - `trigger`: CronJobs of which a Job is created at once, with the Job's name.
    - `goesOn`: the pods of Jobs run until they are deleted, like trainings. Without it they complete at once.
    - `operators`: the operators that run during the act.
    """

    title: str
    delete: tuple[str, ...] = ()
    apply: tuple[str, ...] = ()
    nodes: dict[str, tuple[str, ...]] = {}
    any_order: bool = False
    pending: dict[str, str] = {}
    nominated: dict[str, tuple[str, ...]] = {}
    said: dict[str, str] = {}
    events: dict[str, str] = {}
    goes_on: bool = False
    victims: tuple[str, ...] | None = None
    operators: tuple[str, ...] = ()
    trigger: dict[str, str] = {}


class Scenario(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """The example of one documented system, as a sequence of acts.

    `slowDeletion`: by priority class, the seconds that its pods take to end. `folder`: the folder of the files, if it
    is not the folder with the scenario's name.
    """

    title: str
    acts: tuple[Act, ...]
    slow_deletion: dict[str, float] = {}
    folder: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One expectation of an act, with the expected and the observed value."""

    what: str
    expected: str
    seen: str

    @property
    def right(self) -> bool:
        """Whether the observed value is the expected one."""
        return self.seen == self.expected


def read(folder: Path) -> Scenario:
    """Read the scenario file that has the folder's name (`examples/scenarios/NAME.yaml`), and return the scenario."""
    return msgspec.yaml.decode((EXAMPLES / "scenarios" / f"{folder.name}.yaml").read_text(), type=Scenario)


def played(scenario: Scenario, folder: Path, control_plane: ControlPlane) -> Iterator[tuple[Act, list[Row]]]:
    """Play the acts in order, and yield each act with its expectations and the observed values.

    An operator keeps running between consecutive acts that name the same operators.
    """
    present: tuple[str, ...] = ()
    with ExitStack() as stack:
        for act in scenario.acts:
            deletes = act.operators == present
            if not deletes:
                # Only the operator that created a workload's pods deletes them, so it must still run here.
                _delete(act, folder, control_plane, await_all=bool(present))
                stack.close()
                for each in act.operators:
                    stack.enter_context(running(control_plane, each, report=_ignore_log)).register()
                present = act.operators
            yield act, play(act, folder, control_plane, deletes=deletes)


def _ignore_log(_text: str) -> None:
    """Ignore the text: the operator's log is not needed here."""


def play(act: Act, folder: Path, control_plane: ControlPlane, *, deletes: bool = True) -> list[Row]:
    """Play one act, and observe until everything is as expected or `PATIENCE_SECONDS` are over.

    Returns the expectations with the values observed last.
    :param deletes: whether to delete the objects of `act.delete` first. False: they are deleted already.
    """
    before = _evicted(control_plane)
    with Recorder(control_plane) as recorder:
        if deletes:
            _delete(act, folder, control_plane, await_all=bool(act.operators))
        for each in act.apply:
            _apply(control_plane, _file(folder, each), goes_on=act.goes_on)
        for cron_job, name in act.trigger.items():
            control_plane.kubectl("create", "job", name, f"--from=cronjob/{cron_job}")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            rows = [*_rows_of_events(act, recorder.events), *_rows_at_the_end(act, control_plane, before)]
            if all(row.right for row in rows) or time.monotonic() > deadline:
                return rows
            time.sleep(_POLL_SECONDS)


def _delete(act: Act, folder: Path, control_plane: ControlPlane, *, await_all: bool) -> None:
    awaiting = ["--cascade=foreground"] if await_all else []
    for each in act.delete:
        target = ["-f", str(folder / each)] if (folder / each).exists() else [each]
        control_plane.kubectl("delete", "--ignore-not-found", *awaiting, *target)


def _file(folder: Path, name: str) -> Path:
    operator, parted, path = name.partition(":")
    return operators.source(operator) / path if parted else folder / name


def _apply(control_plane: ControlPlane, path: Path, *, goes_on: bool) -> None:
    """Run `kubectl apply`, and repeat it while it is refused, because the webhook sees earlier objects a moment later.

    :raises RuntimeError: the file is still refused after `PATIENCE_SECONDS`.
    """
    text = path.read_text()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        answer = control_plane.kubectl_result("apply", "-f", "-", stdin=_with_pods_that_run(text) if goes_on else text)
        if answer.returncode == 0:
            break
        if time.monotonic() > deadline:
            raise RuntimeError(f"kubectl apply -f {path}: {answer.stderr}")
        time.sleep(_POLL_SECONDS)
    names = [line.split()[0].removeprefix("node/") for line in answer.stdout.splitlines() if line.startswith("node/")]
    if names:
        control_plane.await_nodes(names)


def _with_pods_that_run(text: str) -> str:
    """Return the manifests with the annotation `GOES_ON` on each pod template, so that kwok does not complete these
    pods.
    """
    manifests = [each for each in yaml.safe_load_all(text) if each]
    for template in (each for manifest in manifests for each in _templates(manifest.get("spec"))):
        template.setdefault("metadata", {}).setdefault("annotations", {})[GOES_ON] = "true"
    return yaml.safe_dump_all(manifests)


def _templates(part: Any) -> Iterator[dict[str, Any]]:
    """Yield the pod templates in a part of a manifest: all mappings that have a spec with containers."""
    if isinstance(part, dict) and "containers" in (part.get("spec") or {}):
        yield part
    elif isinstance(part, dict | list):
        for each in part.values() if isinstance(part, dict) else part:
            yield from _templates(each)


def _rows_of_events(act: Act, events: Sequence[WatchEvent]) -> Iterator[Row]:
    """Yield the rows of `nominated` and `said`: states during the act, read from all recorded events of the pods."""
    for pattern, nodes in act.nominated.items():
        held: dict[str, str] = {}
        for event in _events_of(events, pattern):
            held.setdefault(event.name, "-")
            held[event.name] = event.object["status"].get("nominatedNodeName") or held[event.name]
        names = sorted(held, key=natural_key)
        yield Row(f"{pattern}, capacity reserved", _joined(nodes), _joined(held[name] for name in names))
    for pattern, text in act.said.items():
        said: dict[str, list[str]] = {}
        for event in _events_of(events, pattern):
            said.setdefault(event.name, []).append(_message(event.object))
        right = bool(said) and all(any(text in each for each in messages) for messages in said.values())
        last = " | ".join(dict.fromkeys(messages[-1] for messages in said.values()))
        yield Row(f"{pattern}, on the way", text, text if right else last)


def _events_of(events: Sequence[WatchEvent], pattern: str) -> Iterator[WatchEvent]:
    return (event for event in events if fnmatch.fnmatchcase(event.name, pattern))


def _rows_at_the_end(act: Act, control_plane: ControlPlane, evicted_before: set[str]) -> Iterator[Row]:
    pods = _pods(control_plane)
    for pattern, nodes in act.nodes.items():
        seen = [pod["spec"].get("nodeName", "-") for pod in _matching(pods, pattern)]
        yield Row(pattern, _joined(nodes), _joined(sorted(seen, key=natural_key) if act.any_order else seen))
    for pattern, text in act.pending.items():
        matching = _matching(pods, pattern)
        waiting = bool(matching) and not any(pod["spec"].get("nodeName") for pod in matching)
        said = " | ".join(dict.fromkeys(_message(pod) for pod in matching))
        yield Row(pattern, f"pending: {text}", f"pending: {text}" if waiting and text in said else f"pending: {said}")
    for name, text in act.events.items():
        notes = [each.get("note", "") for each in _events(control_plane) if each["regarding"].get("name") == name]
        right = any(text in note.lower() for note in notes)
        yield Row(f"events on {name}", text, text if right else " | ".join(notes))
    if act.victims is not None:
        evicted = sorted(_evicted(control_plane) - evicted_before, key=natural_key)
        yield Row("evicted", _joined(act.victims), _joined(evicted))


def _pods(control_plane: ControlPlane) -> list[Mapping[str, Any]]:
    found = control_plane.request("GET", "/api/v1/pods")["items"]
    return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]


def _matching(pods: Iterable[Mapping[str, Any]], pattern: str) -> list[Mapping[str, Any]]:
    found = [pod for pod in pods if fnmatch.fnmatchcase(pod["metadata"]["name"], pattern)]
    return sorted(found, key=lambda pod: natural_key(pod["metadata"]["name"]))


def _message(pod: Mapping[str, Any]) -> str:
    conditions = pod.get("status", {}).get("conditions", ())
    return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")


def _evicted(control_plane: ControlPlane) -> set[str]:
    """Return the names of the pods that were evicted for a gang, read from the events of the evictions."""
    return {each["regarding"]["name"] for each in _events(control_plane) if each["reason"] == "Preempted"}


def _events(control_plane: ControlPlane) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = control_plane.request("GET", "/apis/events.k8s.io/v1/events")["items"]
    return found


def _joined(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def play_folder(folder: Path, binaries: Binaries, console: Console) -> bool:
    """Play a scenario on its own control plane. Return whether all observed values are the expected ones."""
    scenario = read(folder)
    console.rule(f"[bold]{scenario.title}")
    right = True
    with ControlPlane(Options(slow_deletion=scenario.slow_deletion), binaries) as control_plane:
        deployment = Deployment(control_plane)
        deployment.install()
        deployment.start_webhook()
        deployment.register_webhook()
        deployment.start_controller()
        for act, rows in played(scenario, files_of(folder, scenario), control_plane):
            right = right and all(row.right for row in rows)
            console.print(_table(act, rows))
    return right


def _table(act: Act, rows: Sequence[Row]) -> Table:
    table = Table(title=act.title, title_justify="left", title_style="", box=None, pad_edge=False)
    for heading in ("", "WHAT", "EXPECTED", "SEEN"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        comparison = Text("ok", "green") if row.right else Text("differs", "red")
        table.add_row(comparison, Text(row.what), Text(row.expected), Text(row.seen))
    return table


def files_of(folder: Path, scenario: Scenario) -> Path:
    """Return the folder with the files that a scenario applies: the one that the scenario names, or `folder`.

    :param folder: the folder in examples/ with the scenario's own name.
    """
    return EXAMPLES / scenario.folder if scenario.folder else folder


def scenarios() -> list[Path]:
    """Return the folder in examples/ with the name of each scenario. A folder need not exist."""
    return sorted(EXAMPLES / path.stem for path in EXAMPLES.glob("scenarios/*.yaml"))


def folders() -> list[Path]:
    """Return the existing folders in examples/ that have a scenario of the same name. These scenarios need no
    operator.
    """
    return [each for each in scenarios() if each.is_dir()]


def main(names: Sequence[str]) -> int:
    """Play the scenarios with these names, or all if none is given. Return the exit status."""
    console = Console(highlight=False, soft_wrap=True)
    binaries = find_binaries()
    chosen = [folder for folder in scenarios() if not names or folder.name in names]
    results = [play_folder(folder, binaries, console) for folder in chosen]
    console.print(f"{sum(results)} of {len(results)} examples are as documented")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
