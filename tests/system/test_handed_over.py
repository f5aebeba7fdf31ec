"""Leadership passes to and fro between two controllers that both live, while gangs come: nothing is lost or doubled.

one     leads ─ stands still ············ goes on │ waits          leads ─
other   waits ──────────── leads ─────────────────┴─ is deposed  ─ waits ─
gangs     ●  ●●   ●  ●   ●   ●●  ●    ●    ●  ●   ●●    ●   ●   ●    ●

50 times in `make test-long`; fewer in every run.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
from candidates import LEASE, candidate, leader
from system import Object, Phalanx, node, numbered, pod, priority_class

from controlplane.recording import WatchEvent, bound
from kube.keys import GATE

TIMES = int(os.environ.get("PHALANX_HANDOVERS", "6"))
pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(300 + 20 * TIMES), pytest.mark.long]

ONE, OTHER = "one-candidate", "other-candidate"
GANGS = "/apis/phalanx.dev/v1alpha1/namespaces/default/gangs"
PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
BUSY = numbered("busy", 30)
PAUSE_SECONDS = 0.5
EVICTING = 4
"""Each fourth gang has to evict one pod for each of its members."""


class Load:
    """Gangs that are created one after the other, of three members on free nodes or of two that need victims."""

    def __init__(self, phalanx: Phalanx) -> None:
        self.members: list[str] = []
        self.gangs: list[str] = []
        self.evicting = 0
        self._cluster = phalanx.cluster
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    @contextmanager
    def coming(self) -> Iterator[None]:
        """While gangs come."""
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._over.wait(PAUSE_SECONDS):
            evicts = number % EVICTING == 0 and self.evicting + 2 <= len(BUSY)
            self.evicting += 2 if evicts else 0
            self._come(f"gang-{number}", 2 if evicts else 3, "busy" if evicts else "free")
            number += 1

    def _come(self, name: str, size: int, pool: str) -> None:
        meta = {"name": name, "namespace": "default"}
        made = {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": meta, "spec": {"minMember": size}}
        members = [
            pod(each, cpu=8 if pool == "busy" else 1, priorityClassName="middle", nodeSelector={"pool": pool})
            for each in numbered(name, size)
        ]
        for each in members:
            each["metadata"]["labels"] = {"phalanx.dev/gang": name}
        self._cluster.create(GANGS, [made])
        self._cluster.create(PODS, members)
        self.gangs.append(name)
        self.members += numbered(name, size)


def pooled(name: str, pool: str, cpu: int) -> Object:
    made = node(name, "spine", "block", cpu)
    made["metadata"]["labels"]["pool"] = pool
    return made


def pass_on(phalanx: Phalanx, candidates: dict[str, object], number: int) -> None:
    """Make the other controller lead: the leader stands still for longer than the Lease, or loses the Lease."""
    phalanx.wait(lambda: leader(phalanx) in candidates, "somebody to lead")
    before = leader(phalanx)
    if number % 2:
        spec = {"spec": {"holderIdentity": ""}}
        phalanx.cluster.request("PATCH", LEASE, spec, MERGE)
        phalanx.wait(lambda: leader(phalanx) in candidates, "somebody to take it")
        return
    program = phalanx.cluster.program(before)
    program.freeze()
    try:
        phalanx.wait(lambda: leader(phalanx) not in ("", before), "the other one to lead")
        time.sleep(PAUSE_SECONDS)
    finally:
        program.thaw()


def test_leadership_that_passes_to_and_fro_loses_and_doubles_nothing(phalanx: Phalanx) -> None:
    phalanx.cluster.add_nodes(
        [*(pooled(f"free-{i}", "free", 200) for i in range(4)), *(pooled(name, "busy", 8) for name in BUSY)]
    )
    phalanx.submit(priority_class("middle", 100), priority_class("low", 0))
    low = [pod(f"low-{name}", priorityClassName="low", nodeName=name) for name in BUSY]
    phalanx.submit(*low)
    phalanx.cluster.program("controller").kill()
    load = Load(phalanx)
    with candidate(phalanx, ONE, lease=2) as one, candidate(phalanx, OTHER, lease=2) as other, phalanx.record() as pods:
        with load.coming():
            for number in range(TIMES):
                pass_on(phalanx, {ONE: one, OTHER: other}, number)
        phalanx.wait(lambda: all(phalanx.nodes_of(load.members).values()), "every member to be bound")
        for name in load.gangs:
            phalanx.await_phase(name, "Placed")
        seen = pods.events
        transitions = phalanx.cluster.request("GET", LEASE)["spec"]["leaseTransitions"]
    print(f"{transitions} terms, {len(load.gangs)} gangs, {len(load.members)} members, {load.evicting} victims")  # noqa: T201
    gone = {e.name for e in seen if e.type == "DELETED" or e.object["metadata"].get("deletionTimestamp")}
    placed = {e.name: bound(e) for e in seen if bound(e)}
    needed = {f"low-{placed[name]}" for name in load.members if placed[name] in BUSY}
    assert {name for name in gone if not name.startswith("probe-")} == needed
    assert len(needed) == load.evicting
    assert {name: times for name in load.members if (times := let_go(seen, name)) != 1} == {}


def let_go(events: list[WatchEvent], name: str) -> int:
    """How many times a member lost its gate."""
    gated = [{"name": GATE} in e.object["spec"].get("schedulingGates", ()) for e in events if e.name == name]
    return sum(before and not after for before, after in pairwise(gated))
