"""A leader that stands still for longer than the lease in the middle of a round: another one leads, and plans anew.

old  leads ── a write is on its way │ SIGSTOP ················· SIGCONT │ nothing; the write on its way is refused
new           waits ──────────────────── leads ─ its own plan ──────────┘
             node-6 is cordoned meanwhile, so that the old plan would be wrong

The write that was on its way reaches the API server only at the end. No check in the old leader can stop it any more.
Only the version of the changed object can.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from candidates import candidate, leader
from proxy import WRITES, Proxy, Request
from system import GUIDE, PATIENCE, Phalanx, all_bound, numbered
from test_crashes import STEPS, low_priority_pods, releases

from controlplane.recording import WatchEvent, bound
from controlplane.running.processes import Program
from kube.keys import PLAN, SYSTEM_NAMESPACE

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

GANGS = "/apis/phalanx.dev/v1alpha1/namespaces/default/gangs"
MEMBERS = numbered("hp-training-pod", 4)
OLD_PLAN = {name: f"node-{5 + index}" for index, name in enumerate(MEMBERS)}
CORDONED = "node-6"
OLD, NEW = "old-leader", "new-leader"
REFUSED = (404, 409)
"""The object of the write is gone, or has changed."""


class Late:
    """Holds the first `number` matching writes and their sender until `deliver`; records the later writes."""

    def __init__(self, proxy: Proxy, matches: Callable[[Request], bool], number: int) -> None:
        self.sender: Program | None = None
        self.reached = threading.Event()
        self.answers: list[int] = []
        self.afterwards: list[Request] = []
        self.written: list[Request] = []
        self._matches, self._number = matches, number
        self._held: list[Request] = []
        self._choosing = threading.Lock()
        self._deliver = threading.Event()
        self._delivered = threading.Event()
        proxy.before, proxy.answered = self._before, self._answered

    def deliver(self) -> None:
        """Let the writes reach the API server, and wait for what that says."""
        self._deliver.set()
        assert self._delivered.wait(PATIENCE)

    def _before(self, request: Request) -> None:
        with self._choosing:
            wanted = self.sender is not None and len(self._held) < self._number and self._matches(request)
            if wanted:
                self._held.append(request)
            complete = len(self._held) == self._number
        if self._delivered.is_set():  # before, its sender stood still: what comes then was sent in time, and is late
            self.afterwards.append(request)
        elif wanted and complete and self.sender is not None:
            self.sender.freeze()
            self.reached.set()
            assert self._deliver.wait(4 * PATIENCE)
        elif wanted or complete:
            self._deliver.wait(4 * PATIENCE)  # sent beside it, and not there yet

    def _answered(self, request: Request, status: int) -> None:
        with self._choosing:
            if any(request is each for each in self.afterwards) and status not in REFUSED:
                self.written.append(request)  # a write that was sent in time and read late is refused by its version
            if any(request is each for each in self._held):
                self.answers.append(status)
            if len(self.answers) == self._number:
                self._delivered.set()


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
    phalanx.submit(*pods)
    phalanx.wait(lambda: all(p["status"]["phase"] == "Running" for p in phalanx.pods()), "the low-priority pods")
    phalanx.cluster.program("controller").kill()
    yield [each["metadata"]["name"] for each in pods]
    phalanx.cluster.kubectl_result("uncordon", CORDONED)


def releases_any(request: Request) -> bool:
    """The patch that takes the gate of a member away."""
    return any(releases(member)(request) for member in MEMBERS)


HELD: dict[str, tuple[Callable[[Request], bool], int]] = {
    **{step: (STEPS[step], 1) for step in ("plan", "first nomination", "last nomination", "eviction")},
    "all releases": (releases_any, len(MEMBERS)),
}


@pytest.mark.parametrize("step", HELD)
def test_a_leader_that_stood_still_writes_nothing_of_its_old_plan(
    phalanx: Phalanx, busy: list[str], tmp_path: Path, step: str
) -> None:
    through = phalanx.cluster.kubeconfig_for(SYSTEM_NAMESPACE, "phalanx-controller")
    with (
        Proxy(through, tmp_path) as proxy,
        candidate(phalanx, OLD, proxy.kubeconfig(), lease=3) as old,
        phalanx.record() as pods,
        phalanx.record(GANGS) as gangs,
    ):
        late = Late(proxy, *HELD[step])
        phalanx.wait(lambda: leader(phalanx) == OLD, "the old one to lead")
        late.sender = old
        phalanx.apply_files(GUIDE / "high-priority-training.yaml")
        phalanx.wait(late.reached.is_set, f"the old one to reach: {step}")
        phalanx.cluster.kubectl("cordon", CORDONED)
        with candidate(phalanx, NEW, lease=3):
            phalanx.wait(lambda: leader(phalanx) == NEW, "the new one to lead")
            pods.wait_for(planned_anew)
            late.deliver()
            old.thaw()
            seen = pods.wait_for(all_bound(MEMBERS))
            phalanx.await_phase("high-priority-training", "Placed")
            told = gangs.events
    assert set(late.answers) <= set(REFUSED)
    assert [f"{each.verb} {each.path}" for each in late.written if not_an_event(each)] == []
    placed = {e.name: bound(e) for e in seen if e.name in MEMBERS and bound(e)}
    assert CORDONED not in placed.values()
    assert all(never_comes_back(plans_of(seen, member)) for member in MEMBERS)
    assert never_comes_back(changes([e.object.get("status", {}).get("planId", "") for e in told]))
    in_vain = OLD_PLAN.values() if step == "all releases" else ()  # its victims went before the release
    assert_gone_only_for([*placed.values(), *in_vain], seen, busy)


def planned_anew(events: list[WatchEvent]) -> bool:
    """Whether every member has been nominated by one plan that differs from the old one.

    Then the new leader has written all its nominations. A late write on a member that it has not written yet would look
    like a write in time.
    """
    places: dict[str, dict[str, str]] = {}
    for each in events:
        node, plan = each.object["status"].get("nominatedNodeName"), each.object["metadata"].get("annotations", {})
        if each.name in MEMBERS and node:
            places.setdefault(plan.get(PLAN, ""), {})[each.name] = node
    return any(len(plan) == len(MEMBERS) and plan != OLD_PLAN for plan in places.values())


def not_an_event(request: Request) -> bool:
    """Return whether the request writes anything but an event. A late event is permitted: it reports what happened."""
    return request.verb in WRITES and "/events" not in request.path


def assert_gone_only_for(nodes: Iterable[str], events: list[WatchEvent], busy: list[str]) -> None:
    """Of the pods of low priority only those went that stood on these nodes."""
    gone = {e.name for e in events if e.object["metadata"].get("deletionTimestamp") and e.name in busy}
    needed = {name for name in busy if any(name.endswith(node.removeprefix("node")) for node in nodes)}
    assert gone == needed
