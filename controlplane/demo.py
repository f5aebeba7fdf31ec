"""The steps of `phalanx demo`: the two examples of Koordinator's guide to gang scheduling, unchanged, on a
control plane of their own.
"""

import shlex
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.tree import Tree

from controlplane import showcase
from controlplane.control_plane import ControlPlane, Options, StartError, wait_until
from controlplane.deployment import Deployment
from controlplane.programs.binaries import find_binaries
from controlplane.programs.compiling import BuildError
from controlplane.programs.toolchain import NoToolchainError
from controlplane.progress import Progress
from controlplane.recording import Recorder, WatchEvent, bound
from controlplane.showcase import Showcase

EXAMPLE = Path(__file__).parent.parent / "examples" / "koordinator"
TERMINATING_SECONDS = 3.0
"""How long a pod of low priority takes to end. It is long enough to see the reserved capacity meanwhile."""
PATIENCE_SECONDS = 300.0
LEASE_SECONDS, TIMEOUT_SECONDS = 15.0, 30
"""The controller's lease and the timeout of the webhook's calls, so that the demo does not fail on a slow machine."""

_SPINE = "network.topology.nvidia.com/spine"
_BLOCK = "network.topology.nvidia.com/block"


@dataclass(frozen=True, slots=True)
class DemoGang:
    """A gang of the Koordinator guide's examples: the name of its PodGroup and the names of its members."""

    name: str
    members: tuple[str, ...]


TRAINING = DemoGang("topology-demo-job", tuple(f"training-pod-{index}" for index in range(4)))
HIGH_PRIORITY = DemoGang("high-priority-training", tuple(f"hp-training-pod-{index}" for index in range(4)))
LOW_PRIORITY = tuple(f"low-priority-pod-{index}" for index in (0, 1, 5))


def run(*, keep: bool) -> None:
    """Play the two examples of the Koordinator guide and print what happens. `keep`: show a larger cluster instead,
    until Ctrl-C.

    :raises click.ClickException: a program could not be built or started, or a step took too long.
    """
    console = Console(highlight=False)
    progress = Progress(sys.stderr)
    try:
        binaries = find_binaries(progress)
        terminating = showcase.TERMINATING_SECONDS if keep else TERMINATING_SECONDS
        with ControlPlane(Options(slow_deletion={"low-priority": terminating}), binaries) as control_plane:
            restarting = ("--restart-seconds", showcase.RESTART_SECONDS) if keep else ()
            deployment = _install(control_plane, progress, restarting)
            if keep:
                _show(Showcase(control_plane, deployment, progress), console)
            else:
                Demonstration(control_plane, console, progress).tell()
    except (BuildError, NoToolchainError, StartError, TimeoutError) as error:
        raise click.ClickException(str(error)) from error
    except CalledProcessError as error:
        raise click.ClickException(f"{shlex.join(error.cmd)}: {error.stderr}") from error


def _install(control_plane: ControlPlane, progress: Progress, controller_options: Sequence[object]) -> Deployment:
    with progress.step("installing Phalanx and starting its two servers"):
        deployment = Deployment(control_plane, LEASE_SECONDS, timeout_seconds=TIMEOUT_SECONDS)
        deployment.install()
        deployment.start_servers(controller_options)
    return deployment


def _show(shown: Showcase, console: Console) -> None:
    """Show the cluster of `phalanx demo --keep`. The URL of its live page is printed as soon as there are nodes, and
    again at the end.
    """
    shown.furnish()
    with shown.page() as page:
        click.echo(f"  the page, on which the gangs now appear: {page}")
        shown.populate()
        shown.tell(console, page)
        showcase.stay(console)


class Demonstration:
    """Plays the two examples of the Koordinator guide, one after the other, on a fresh control plane."""

    def __init__(self, control_plane: ControlPlane, console: Console, progress: Progress) -> None:
        self._control_plane = control_plane
        self._console = console
        self._progress = progress

    def tell(self) -> None:
        """Play both examples of the Koordinator guide and print the results."""
        with self._progress.step("creating the guide's 12 nodes in 3 spines"):
            self._apply("nodes.yaml", "cluster-network-topology.yaml")
            self._control_plane.await_nodes(f"node-{index}" for index in range(12))
        with Recorder(self._control_plane) as recorder:
            self._first_example(recorder)
        with Recorder(self._control_plane) as recorder:
            self._second_example(recorder)
        self._summarise()

    def _first_example(self, recorder: Recorder) -> None:
        self._console.rule("[bold]Example 1: PreferGather on an idle cluster")
        started = time.monotonic()
        self._apply("topology-demo-job.yaml")
        events = recorder.wait_for(lambda seen: _all_bound(seen, TRAINING.members), PATIENCE_SECONDS)
        self._report(TRAINING, events, started)
        self._control_plane.kubectl("delete", "-f", str(EXAMPLE / "topology-demo-job.yaml"), "--wait=false")
        self._await_gone(TRAINING.members)

    def _second_example(self, recorder: Recorder) -> None:
        self._console.rule("[bold]Example 2: MustGather, with pods of low priority in the way")
        self._apply("priorityclasses.yaml", "low-priority-pods.yaml")
        recorder.wait_for(lambda seen: _all_running(seen, LOW_PRIORITY), PATIENCE_SECONDS)
        started = time.monotonic()
        self._apply("high-priority-training.yaml")
        recorder.wait_for(lambda seen: bool(_terminating(seen)), PATIENCE_SECONDS)
        self._while_terminating()
        events = recorder.wait_for(lambda seen: _all_bound(seen, HIGH_PRIORITY.members), PATIENCE_SECONDS)
        self._report(HIGH_PRIORITY, events, started)
        evicted = ", ".join(sorted({event.name for event in _terminating(events)}))
        self._console.print(f"evicted: {evicted}\n")

    def _summarise(self) -> None:
        """Print in plain words what the user has seen, and three commands to go on with."""
        self._console.rule("[bold]What you have seen")
        self._console.print(
            "All 4 pods of topology-demo-job started together, as close as possible.\n"
            "All 4 pods of high-priority-training started together in one spine, although no spine had 4 free nodes:\n"
            "their nodes were reserved, one pod of low priority was evicted, and no other pod took its node.\n"
        )
        command = showcase.own_command()
        steps = (
            ("Open the page, on 128 nodes with gangs in every phase", f"{command} demo --keep"),
            ("Plan a gang of your own: change this file", f"{command} solve -f examples/own -o table"),
            ("Ask why a gang waits, and what would help", f"{command} solve -f examples/first-gang -o table"),
        )
        for title, line in steps:
            click.echo(f"{title}:\n  {line}\n")

    def _while_terminating(self) -> None:
        """Print the pods while the victim terminates and its capacity is reserved."""
        self._console.print("while the victim terminates:")
        columns = "NAME:.metadata.name,NODE:.spec.nodeName,NOMINATED:.status.nominatedNodeName"
        listing = self._control_plane.kubectl("get", "pods", "-o", f"custom-columns={columns}")
        self._console.print(listing.rstrip())
        message = "jsonpath={.status.conditions[?(@.type=='PodScheduled')].message}"
        pod = self._control_plane.kubectl("get", "pod", HIGH_PRIORITY.members[0], "-o", message)
        self._console.print(f"\n{HIGH_PRIORITY.members[0]}: {pod}\n")

    def _report(self, gang: DemoGang, events: list[WatchEvent], started: float) -> None:
        nodes = {event.name: bound(event) for event in events if event.name in gang.members and bound(event)}
        table = Table(box=None, pad_edge=False, header_style="bold")
        for title in ("POD", "NODE"):
            table.add_column(title)
        for member in gang.members:
            table.add_row(member, nodes[member])
        self._console.print(table)
        self._console.print(self._tree(gang, nodes))
        self._tell_plan(gang)
        held = _first(events, gang.members, lambda e: bool(e.object["status"].get("nominatedNodeName")))
        let_go = _first(events, gang.members, lambda e: not e.object["spec"].get("schedulingGates"))
        last = max(_first(events, (name,), lambda e: bool(bound(e))) for name in gang.members)
        steps = (("capacity reserved", held), ("released", let_go), ("all bound", last))
        self._console.print("times: " + ", ".join(f"{what} after {at - started:.2f} s" for what, at in steps) + "\n")

    def _tell_plan(self, gang: DemoGang) -> None:
        found = self._control_plane.request("GET", f"/apis/phalanx.dev/v1alpha1/namespaces/default/gangs/{gang.name}")
        status: dict[str, Any] = found["status"]
        goals = ", ".join(f"{g['goal']} {g['value']}" for g in status.get("objective", ()) if g["value"])
        self._console.print(f"proof: {status.get('proof')} ({goals})")

    def _tree(self, gang: DemoGang, nodes: dict[str, str]) -> Tree:
        """Return the topology as a tree for the terminal, with every node and its pod."""
        pods = self._control_plane.request("GET", "/api/v1/pods")["items"]
        tenants = {pod["spec"].get("nodeName"): pod["metadata"]["name"] for pod in pods}
        tenants |= {node: member for member, node in nodes.items()}
        root = Tree("cluster")
        branches: dict[tuple[str, ...], Tree] = {(): root}
        for node in sorted(self._control_plane.request("GET", "/api/v1/nodes")["items"], key=_number):
            labels, name = node["metadata"]["labels"], node["metadata"]["name"]
            for path in ((labels[_SPINE],), (labels[_SPINE], labels[_BLOCK])):
                if path not in branches:
                    branches[path] = branches[path[:-1]].add(path[-1])
            tenant = tenants.get(name, "")
            style = "bold green" if tenant in gang.members else "dim"
            branches[labels[_SPINE], labels[_BLOCK]].add(f"{name} [{style}]{tenant or '·'}[/]")
        return root

    def _apply(self, *files: str) -> None:
        for file in files:
            self._control_plane.kubectl("apply", "-f", str(EXAMPLE / file))

    def _await_gone(self, pods: Iterable[str]) -> None:
        names = set(pods)

        def gone() -> bool:
            items = self._control_plane.request("GET", "/api/v1/pods")["items"]
            return not names & {pod["metadata"]["name"] for pod in items}

        wait_until(gone, PATIENCE_SECONDS, "the pods to go")


def _all_bound(events: Iterable[WatchEvent], names: Iterable[str]) -> bool:
    return set(names) <= {event.name for event in events if bound(event)}


def _all_running(events: Iterable[WatchEvent], names: Iterable[str]) -> bool:
    return set(names) <= {event.name for event in events if event.object["status"].get("phase") == "Running"}


def _terminating(events: Iterable[WatchEvent]) -> list[WatchEvent]:
    return [e for e in events if e.name in LOW_PRIORITY and e.object["metadata"].get("deletionTimestamp")]


def _first(events: Iterable[WatchEvent], names: Iterable[str], happened: Callable[[WatchEvent], bool]) -> float:
    """Return when the last of the named pods had its first event for which `happened` returns True."""
    return max(next(e.at for e in events if e.name == name and happened(e)) for name in names)


def _number(node: dict[str, Any]) -> int:
    return int(node["metadata"]["name"].removeprefix("node-"))
