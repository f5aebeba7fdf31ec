"""A planner with its lanes and clock in hand, and gangs of pods of 4 cpu on the three nodes of `protocol_scenes`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pytest
from inline_executors import HeldExecutor
from manual_clock import ManualClock
from protocol_scenes import RACK, TOPOLOGY, gang, snapshot
from protocol_scenes import pod as made

from cluster.snapshot import Snapshot
from controller.cluster_view import ClusterView
from controller.scheduling import planning_requests as solving
from controller.scheduling.planning_queue import PlanningQueue
from controller.scheduling.single_slot_executor import Lanes
from controller.telemetry.metrics import Metrics
from gangs.model import Gang, GangKey, Reading
from gangs.sources import Sources
from kube.objects import Pod
from kube.topology import Topology
from planning.decision import Decision, Outcome
from planning.message import Message
from planning.planner import plan_in_turn
from planning.planning_options import PlanningOptions
from solver.plan import Proof
from solver.problem import Limits

FULL = Limits(seconds=36.0)
Slow = Callable[..., None]
"""Called with a gang's name and the seconds it takes to prove its answer."""


def named(name: str, *pods: Pod, namespace: str = "default", created: str = "2026-01-01T00:00:00Z") -> Gang:
    """A gang that needs all its pods in one rack."""
    key = GangKey("phalanx", namespace, name)
    return replace(gang(*pods), key=key, required=RACK, created=created)


def members(stem: str, count: int, priority: int = 10) -> list[Pod]:
    """Gated pods of 4 cpu."""
    return [made(f"{stem}-{index}", priority=priority) for index in range(count)]


def picture(*pods: Pod, version: str = "1") -> ClusterView:
    """The cluster with these pods; `version` counts its changes."""
    there = replace(snapshot(*pods), version=version)
    live = {each.metadata.uid: each for each in pods}
    return ClusterView(Sources(), Reading(), [TOPOLOGY], (), there, live, {})


class Bench:
    """A planner with lanes and clocks in hand."""

    def __init__(self) -> None:
        self.fast, self.slow, self.clock = HeldExecutor(), HeldExecutor(), ManualClock(100.0)
        self.metrics = Metrics()
        self.queue = PlanningQueue(FULL, self.metrics, Lanes(self.fast, self.slow), clock=self.clock)

    def round(self, *gangs: Gang, on: ClusterView | None = None) -> dict[str, Outcome | None]:
        """Run one round, and return the outcome that it has for each gang by name; None: no answer yet."""
        self.last = self.queue.decide(gangs, on or picture())
        return {key.name: decision.outcome if decision else None for key, decision in self.last.items()}

    def nodes(self, name: str) -> list[str]:
        """Where the last round's plan puts the members of a gang."""
        decision = self.last[GangKey("phalanx", "default", name)]
        return sorted(each.node for each in decision.assignments) if decision else []

    def being_planned(self) -> float | None:
        """Return the metric of gangs that are being planned now; None if it is missing."""
        return self.metrics.registry.get_sample_value("phalanx_gangs_being_planned")

    def stale(self) -> float:
        """How many plans did not stand."""
        return self.metrics.registry.get_sample_value("phalanx_stale_plans_total") or 0.0


def slowed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Slow:
    """Replace the planner's solve by one that needs a given time for the gangs named in calls of the result.

    If the time limit is shorter than that, the gang gets no plan, or a plan that is not proven optimal.
    """
    hard: dict[str, tuple[float, Proof]] = {}
    real = plan_in_turn

    def planned(
        gangs: Sequence[Gang],
        snapshot: Snapshot,
        topologies: Sequence[Topology],
        options: PlanningOptions,
        *,
        standing: Iterable[Decision],
    ) -> Iterable[Sequence[Decision]]:
        """Plan each gang by itself with the real planner. A slow gang moves the clock."""
        standing = list(standing)
        for each in gangs:
            (decisions,) = real([each], snapshot, topologies, options, standing=standing)
            needs, proof = hard.get(each.key.name, (0.0, Proof.OPTIMAL))
            spent = min(needs, options.limits.seconds)
            bench.clock.now += spent
            if spent < needs:
                decisions = [_unproven(decision, proof) for decision in decisions]
            standing += decisions
            yield decisions

    def make(name: str, seconds: float, proof: Proof = Proof.UNPROVEN) -> None:
        """Make a gang need so many seconds for a proven plan. With less time its result has this weaker `proof`."""
        hard[name] = seconds, proof

    monkeypatch.setattr(solving, "plan_in_turn", planned)
    return make


def _unproven(decision: Decision, proof: Proof) -> Decision:
    if proof is Proof.FEASIBLE:
        return replace(decision, proof=proof.value)
    return Decision(decision.gang, decision.key, Outcome.UNPLACEABLE, Message.of("?"), proof=proof.value)
