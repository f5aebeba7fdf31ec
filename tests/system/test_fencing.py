"""A leader that stands still for longer than the lease in the middle of a round: another one leads, and plans anew.

old  leads ── a write is on its way │ SIGSTOP ················· SIGCONT │ nothing; the write on its way is refused
new           waits ──────────────────── leads ─ its own plan ──────────┘
             node-6 is cordoned meanwhile, so that the old plan would be wrong

The write that was on its way reaches the API server only when all is over: no check in the old leader can stop it any
more, only that what it was meant for has changed.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from proxy import WRITES, Proxy, Request
from system import GUIDE, PATIENCE, Phalanx, all_bound, numbered
from test_crashes import STEPS, low_priority_pods

from controlplane.control_plane import free_ports
from controlplane.processes import Program
from controlplane.recording import WatchEvent, bound
from kube.keys import CONTROLLER_LEASE, PLAN, SYSTEM_NAMESPACE

pytestmark = pytest.mark.controlplane

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases/{CONTROLLER_LEASE}"
GANGS = "/apis/phalanx.dev/v1alpha1/namespaces/default/gangs"
MEMBERS = numbered("hp-training-pod", 4)
OLD_PLAN = {name: f"node-{5 + index}" for index, name in enumerate(MEMBERS)}
CORDONED = "node-6"
OLD, NEW = "old-leader", "new-leader"
REFUSED = (404, 409)
"""What it was meant for is gone, or has changed."""


class Late:
    """Holds the first write that matches, and its sender, until `deliver`; notes what is written from then on."""

    def __init__(self, proxy: Proxy, matches: Callable[[Request], bool]) -> None:
        self.sender: Program | None = None
        self.reached = threading.Event()
        self.answer = 0
        self.afterwards: list[Request] = []
        self._matches = matches
        self._held: Request | None = None
        self._choosing = threading.Lock()
        self._deliver = threading.Event()
        self._delivered = threading.Event()
        proxy.before, proxy.answered = self._before, self._answered

    def deliver(self) -> None:
        """Let the write reach the API server, and wait for what that says."""
        self._deliver.set()
        assert self._delivered.wait(PATIENCE)

    def _before(self, request: Request) -> None:
        with self._choosing:
            chosen = self.sender is not None and self._held is None and self._matches(request)
            if chosen:
                self._held = request
        if self._deliver.is_set():
            self.afterwards.append(request)
        elif chosen and self.sender is not None:
            self.sender.freeze()
            self.reached.set()
            assert self._deliver.wait(4 * PATIENCE)
        elif self._held is not None:
            self._deliver.wait(4 * PATIENCE)  # sent beside it, and not there yet

    def _answered(self, request: Request, status: int) -> None:
        if request is self._held:
            self.answer = status
            self._delivered.set()


@contextmanager
def controller(phalanx: Phalanx, identity: str, kubeconfig: Path | None = None) -> Iterator[Program]:
    """One more controller, ready to lead. It is killed in the end."""
    (port,) = free_ports(1)
    config = kubeconfig or phalanx.cluster.kubeconfig_for(SYSTEM_NAMESPACE, "phalanx-controller")
    command = [sys.executable, "-c", "from cli.main import main; main()", "controller", f"--kubeconfig={config}"]
    settings = [f"--identity={identity}", "--lease-seconds=3", "--metrics-port=0"]
    where = ["--health-address=127.0.0.1", f"--health-port={port}"]
    environment = {**os.environ, "HOME": str(phalanx.cluster.directory)}
    program = phalanx.cluster.run(identity, [*command, *settings, *where], environment)
    try:
        phalanx.wait(lambda: ready(port), f"{identity} to be ready")
        yield program
    finally:
        print(f"--- {identity}\n{program.tail()}")  # noqa: T201 - for the report of a failed test
        program.kill()


def ready(port: int) -> bool:
    """Whether a controller could lead."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def leader(phalanx: Phalanx) -> str:
    """Who holds the Lease."""
    return str(phalanx.cluster.request("GET", LEASE)["spec"].get("holderIdentity") or "")


def changes(values: list[str]) -> list[str]:
    """The values without those that are as the one before."""
    return [value for before, value in zip(["", *values], values, strict=False) if value != before]


def plans_of(events: list[WatchEvent], member: str) -> list[str]:
    """The plans that a member was nominated by, in turn; "" in between."""
    return changes([e.object["metadata"].get("annotations", {}).get(PLAN, "") for e in events if e.name == member])


def never_comes_back(values: list[str]) -> bool:
    """Whether nothing that was replaced by something else is there again later."""
    told = [value for value in values if value]
    return len(set(told)) == len(changes(told))


@pytest.fixture
def busy(phalanx: Phalanx, request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """The guide's cluster with its pods of low priority, under names of the test's own; no controller runs."""
    step = request.getfixturevalue("step")
    phalanx.guide_nodes()
    phalanx.apply_files(GUIDE / "priorityclasses.yaml")
    pods = low_priority_pods(f"fenced-{step.replace(' ', '-')}")
    phalanx.apply(*pods)
    phalanx.wait(lambda: all(p["status"]["phase"] == "Running" for p in phalanx.pods()), "the low-priority pods")
    phalanx.cluster.program("controller").kill()
    yield [each["metadata"]["name"] for each in pods]
    phalanx.cluster.kubectl_result("uncordon", CORDONED)


@pytest.mark.parametrize("step", ["plan", "first nomination", "last nomination", "eviction"])
def test_a_leader_that_stood_still_writes_nothing_of_its_old_plan(
    phalanx: Phalanx, busy: list[str], tmp_path: Path, step: str
) -> None:
    through = phalanx.cluster.kubeconfig_for(SYSTEM_NAMESPACE, "phalanx-controller")
    with (
        Proxy(through, tmp_path) as proxy,
        controller(phalanx, OLD, proxy.kubeconfig()) as old,
        phalanx.record() as pods,
        phalanx.record(GANGS) as gangs,
    ):
        late = Late(proxy, STEPS[step])
        phalanx.wait(lambda: leader(phalanx) == OLD, "the old one to lead")
        late.sender = old
        phalanx.apply_files(GUIDE / "high-priority-training.yaml")
        phalanx.wait(late.reached.is_set, f"the old one to reach: {step}")
        phalanx.cluster.kubectl("cordon", CORDONED)
        with controller(phalanx, NEW):
            phalanx.wait(lambda: leader(phalanx) == NEW, "the new one to lead")
            pods.wait_for(planned_anew)
            late.deliver()
            old.thaw()
            seen = pods.wait_for(all_bound(MEMBERS))
            phalanx.await_phase("high-priority-training", "Placed")
            told = gangs.events
    assert late.answer in REFUSED
    assert [f"{each.verb} {each.path}" for each in late.afterwards if not_an_event(each)] == []
    placed = {e.name: bound(e) for e in seen if e.name in MEMBERS and bound(e)}
    assert CORDONED not in placed.values()
    assert all(never_comes_back(plans_of(seen, member)) for member in MEMBERS)
    assert never_comes_back(changes([e.object.get("status", {}).get("planId", "") for e in told]))
    assert_gone_only_for(placed, seen, busy)


def planned_anew(events: list[WatchEvent]) -> bool:
    """Whether every member has been nominated by one plan that puts somebody elsewhere: the new leader has been at all.

    A late write on a member that it has not come to yet would be as if it had been in time.
    """
    places: dict[str, dict[str, str]] = {}
    for each in events:
        node, plan = each.object["status"].get("nominatedNodeName"), each.object["metadata"].get("annotations", {})
        if each.name in MEMBERS and node:
            places.setdefault(plan.get(PLAN, ""), {})[each.name] = node
    return any(len(plan) == len(MEMBERS) and plan != OLD_PLAN for plan in places.values())


def not_an_event(request: Request) -> bool:
    """Events tell what has happened; whoever did it may still say so."""
    return request.verb in WRITES and "/events" not in request.path


def assert_gone_only_for(placed: dict[str, str], events: list[WatchEvent], busy: list[str]) -> None:
    """Of the pods of low priority only those went that stood where the new plan places a member."""
    gone = {e.name for e in events if e.object["metadata"].get("deletionTimestamp") and e.name in busy}
    needed = {name for name in busy if any(name.endswith(node.removeprefix("node")) for node in placed.values())}
    assert gone == needed
