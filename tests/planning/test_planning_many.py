"""Several gangs on one cluster: their order, and the capacity that each gang leaves for the later ones."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
import scenes

from planning import planner
from planning.competing import planned_together
from planning.decision import Decision, Outcome
from planning.dry_run import DryRun
from planning.solver_pool.pool import shared_workers
from solver.plan import Answer
from solver.problem import Limits, Problem

BOUNDING = planned_together.BOUNDING
"""The product's own limit, read before `tests/conftest.py` raises it for every test."""
TWO_NODES = [scenes.topology(), *scenes.nodes("s/b: node-0 node-1")]


def outcomes(run: DryRun) -> dict[str, str]:
    """Return, by gang in the order of planning, its nodes, or its outcome if it has none."""
    return {each.key.name: ",".join(a.node for a in each.assignments) or each.outcome.value for each in run.decisions}


def gang_of(name: str, count: int, priority: int = 0, created: str = "", **more: Any) -> list[scenes.Manifest]:
    """A gang with its members."""
    gang = scenes.gang(name, minMember=count)
    if created:
        gang["metadata"]["creationTimestamp"] = created
    return [gang, *scenes.members(count, name, priority, **more)]


def test_two_that_only_fit_one_after_the_other_never_both_start_half() -> None:
    run = scenes.solved(TWO_NODES, gang_of("b", 2), gang_of("a", 2))
    assert outcomes(run) == {"a": "node-0,node-1", "b": "Unplaceable"}


def test_priority_goes_before_age_and_age_before_the_name() -> None:
    run = scenes.solved(
        TWO_NODES,
        gang_of("a", 2),
        gang_of("b", 2, created="2026-01-02T00:00:00Z"),
        gang_of("c", 2, created="2026-01-01T00:00:00Z"),
        gang_of("d", 2, priority=1),
    )
    assert list(outcomes(run)) == ["d", "c", "b", "a"]
    assert outcomes(run)["d"] == "node-0,node-1"


def test_what_one_takes_the_next_does_not_see_free() -> None:
    run = scenes.solved(TWO_NODES, gang_of("a", 1), gang_of("b", 1))
    assert outcomes(run) == {"a": "node-0", "b": "node-1"}


def test_a_victim_is_evicted_once_and_its_room_is_given_once() -> None:
    low = scenes.running("low", "node-0", -1)
    run = scenes.solved(TWO_NODES, low, gang_of("a", 2), gang_of("b", 1))
    assert outcomes(run) == {"a": "node-0,node-1", "b": "Unplaceable"}
    assert [len(each.evictions) for each in run.decisions] == [1, 0]


def test_room_reserved_for_a_lower_gang_may_be_taken_and_is_planned_anew() -> None:
    #  low was planned onto node-0 and is still gated; high comes and needs both nodes
    low = gang_of("low", 1, schedulingGates=[{"name": "phalanx.dev/gang"}])
    low[1]["status"] = {"nominatedNodeName": "node-0"}
    run = scenes.solved(TWO_NODES, low, gang_of("high", 2, priority=1))
    assert outcomes(run) == {"high": "node-0,node-1", "low": "Unplaceable"}
    assert not run.decisions[0].evictions


def test_a_gang_that_runs_is_not_planned_and_is_evicted_whole() -> None:
    old = scenes.gang("old", minMember=2)
    members = [scenes.running(f"old-{i}", f"node-{i}", -1, gang="old") for i in range(2)]
    run = scenes.solved(TWO_NODES, old, members, gang_of("a", 1))
    (decision,) = run.decisions
    assert decision.key.name == "a"
    assert [(each.name, str(each.gang)) for each in decision.evictions] == [
        ("old-0", "default/old"),
        ("old-1", "default/old"),
    ]


def test_a_pending_pod_of_no_gang_is_not_planned_and_not_reported() -> None:
    run = scenes.solved(TWO_NODES, scenes.pod("loner"), gang_of("a", 2))
    assert outcomes(run) == {"a": "node-0,node-1"}


def test_priorities_come_through_classes_in_the_input_or_of_the_system() -> None:
    run = scenes.solved(
        TWO_NODES,
        scenes.priority_class("high", 1000),
        scenes.priority_class("normal", 7, globalDefault=True),
        scenes.running("plain", "node-0", priority=None),
        scenes.gang("a", minMember=2),
        [scenes.pod(f"a-{i}", gang="a", priorityClassName="high") for i in range(2)],
        scenes.gang("s", minMember=1),
        scenes.pod("s-0", gang="s", priorityClassName="system-node-critical"),
    )
    first, second = run.decisions
    assert (first.key.name, second.key.name) == ("s", "a")
    assert first.outcome is Outcome.PLACED
    assert second.outcome is Outcome.UNPLACEABLE


def test_a_class_that_never_preempts_is_honoured() -> None:
    gentle = scenes.priority_class("gentle", 1000, preemptionPolicy="Never")
    parts = TWO_NODES, scenes.running("low", "node-0"), scenes.running("low-2", "node-1"), gentle
    pod = scenes.pod("a-0", gang="a", priorityClassName="gentle")
    assert outcomes(scenes.solved(*parts, scenes.gang("a", minMember=1), pod)) == {"a": "Unplaceable"}


def test_a_job_that_has_no_pods_yet_is_expanded_as_its_controller_would() -> None:
    container = {"name": "m", "image": "i", "resources": {"limits": {"cpu": 8}}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "annotations": {"phalanx.dev/gang": "true"}},
        "spec": {
            "parallelism": 2,
            "completions": 2,
            "completionMode": "Indexed",
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }
    (decision,) = scenes.solved(TWO_NODES, job).decisions
    found = [(each.member.pod.metadata.name, each.index, each.node) for each in decision.assignments]
    assert found == [("train-0", 0, "node-0"), ("train-1", 1, "node-1")]


RACKS = [scenes.topology(("rack",)), *scenes.nodes("r0: a b c d e f g\nr1: h i j k l", ("rack",))]
"""Racks of 7 and 5 nodes."""


def in_one_rack(name: str, count: int, created: str) -> list[scenes.Manifest]:
    """A gang that requires one rack."""
    return [
        {
            **scenes.gang(name, minMember=count, required="rack"),
            "metadata": {"name": name, "namespace": "default", "creationTimestamp": created},
        },
        *scenes.members(count, name),
    ]


COMPETING = [
    *in_one_rack("first", 4, "2026-01-01T00:00:00Z"),
    *in_one_rack("second", 3, "2026-01-02T00:00:00Z"),
    *in_one_rack("third", 5, "2026-01-03T00:00:00Z"),
]


UNEQUAL_RACKS = [scenes.topology(("rack",)), *scenes.nodes("r0: n0 n1\nr1: n2\nr2: n3", ("rack",))]


def racks(run: DryRun) -> dict[str, str]:
    """The rack of each gang, or the outcome."""
    return {
        each.key.name: ",".join(use.path[0] for use in each.levels[0].domains) if each.levels else each.outcome.value
        for each in run.decisions
    }


def test_three_gangs_find_room_together_where_one_by_one_the_third_would_find_none() -> None:
    run = scenes.solved(RACKS, COMPETING)
    assert racks(run) == {"first": "r0", "second": "r0", "third": "r1"}
    assert [each.proof for each in run.decisions] == ["Optimal"] * 3


def test_in_a_large_cluster_they_find_it_too_and_nothing_is_called_optimal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_together, "SMALL", 0)
    run = scenes.solved(RACKS, COMPETING)
    assert {each.outcome for each in run.decisions} == {Outcome.PLACED}


def test_one_by_one_is_not_called_optimal_where_it_is_not_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_together, "SMALL", 0)
    run = scenes.solved(RACKS, gang_of("a", 2), gang_of("b", 2))
    assert [each.proof for each in run.decisions] == ["Feasible", "Feasible"]


def bounds(decision: Decision) -> dict[str, tuple[int, int]]:
    """Goals by name down to the preferences: value and bound."""
    found = {each.name: (each.value, each.bound) for each in decision.goals}
    return {name: found[name] for name in found if name.startswith(("victims", "extras", "compactness", "preferences"))}


def test_of_many_gangs_compactness_and_ranks_are_proven_together_and_waste_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planned_together, "SMALL", 0)
    run = scenes.solved(RACKS, gang_of("a", 2), gang_of("b", 2))
    for decision in run.decisions:
        goals = {each.name: each for each in decision.goals}
        assert all(value == bound for value, bound in bounds(decision).values())
        assert (goals["ranks"].value, goals["ranks"].bound, goals["ranks"].parts) == (0, 0, {"rack": 0, "node": 1})
        assert decision.proof == "Feasible"


def test_of_many_gangs_the_one_without_room_is_told_so_and_the_others_are_proven(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planned_together, "SMALL", 0)
    run = scenes.solved(RACKS, gang_of("a", 2), gang_of("b", 99), gang_of("c", 2))
    assert [(each.outcome, each.proof) for each in run.decisions] == [
        (Outcome.PLACED, "Feasible"),
        (Outcome.UNPLACEABLE, "Infeasible"),
        (Outcome.PLACED, "Feasible"),
    ]
    assert all(value == bound for each in run.decisions for value, bound in bounds(each).values())


def test_who_is_as_compact_as_alone_is_proven_so_even_where_gangs_are_not_weighed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planned alone, gangs a and b each get one rack, equal or different. Both are as compact as possible."""
    monkeypatch.setattr(planned_together, "SMALL", 0)
    run = scenes.solved(RACKS, gang_of("a", 2), gang_of("b", 2))
    for decision in run.decisions:
        assert all(value == bound for value, bound in bounds(decision).values())


def test_who_is_less_compact_than_alone_is_proven_to_be_where_the_sum_cannot_be_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One rack of two nodes, two of one: a and b would each have the larger alone."""
    monkeypatch.setattr(planned_together, "SMALL", 0)
    first, second = scenes.solved(UNEQUAL_RACKS, gang_of("a", 2), gang_of("b", 2)).decisions
    level = next(name for name in bounds(second) if name.startswith("compactness"))
    assert sorted((bounds(first)[level], bounds(second)[level])) == [(1, 1), (2, 2)]
    assert {first.proof, second.proof} == {"Feasible"}


def test_who_is_less_compact_than_alone_is_told_what_was_possible_where_no_sum_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Gangs a and b are planned one after the other on one rack of two nodes and two racks of one node.

    Gang a takes the larger rack. Gang b, planned alone, would get this rack.
    """
    monkeypatch.setattr(planned_together, "SMALL", 0)
    monkeypatch.setattr(planned_together, "shared_workers", lambda: Clocked(0.0))
    first, second = scenes.solved(UNEQUAL_RACKS, gang_of("a", 2), gang_of("b", 2)).decisions
    level = next(name for name in bounds(second) if name.startswith("compactness"))
    assert bounds(first)[level] == (1, 1)
    assert bounds(second)[level] == (2, 1)
    assert {first.proof, second.proof} == {"Feasible"}


class Clocked:
    """The workers with a clock of their own, on which each answer takes `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.now = 0.0
        self.given: list[float] = []
        self._seconds = seconds

    def solve(self, problem: Problem, limits: Limits) -> Answer:
        """Record the time limit and return the real answer."""
        self.given.append(round(limits.seconds, 3))
        self.now += self._seconds
        return shared_workers().solve(problem, Limits(seconds=600.0))

    def place_many(self, *_: object) -> None:
        """Give no plan in time, so that gangs are planned one after the other."""

    def solve_joint(self, *_: object) -> None:
        """Give no joint plan."""


@pytest.mark.parametrize(
    ("what", "seconds", "limits", "given", "proven"),
    [
        ("all are known in time", 0.2, Limits(), [1.0, 0.8, 0.6, 0.4], True),
        ("what is left is not enough for the last", 0.3, Limits(), [1.0, 0.7, 0.4], False),
        ("the first takes it all", 1.5, Limits(), [1.0], False),
        ("less is allowed for each gang anyhow", 0.2, Limits(seconds=0.5), [0.5, 0.3], False),
    ],
)
def test_all_gangs_share_one_second_to_learn_how_each_would_be_alone(
    what: str, seconds: float, limits: Limits, given: list[float], *, proven: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = Clocked(seconds)
    monkeypatch.setattr(planned_together, "SMALL", 0)
    monkeypatch.setattr(planned_together, "shared_workers", lambda: workers)
    monkeypatch.setattr(planned_together, "BOUNDING", BOUNDING)
    clock = SimpleNamespace(monotonic=lambda: workers.now, perf_counter=time.perf_counter)
    monkeypatch.setattr(planned_together, "time", clock)
    run = scenes.solved(RACKS, *(gang_of(name, 1) for name in "abcd"), limits=limits)
    assert {each.outcome for each in run.decisions} == {Outcome.PLACED}
    assert workers.given == given, what
    told = [value == bound for decision in run.decisions for value, bound in bounds(decision).values()]
    assert all(told) is proven


def test_the_minimum_of_a_later_gang_comes_before_the_extras_of_an_earlier_one() -> None:
    first = scenes.gang("a", minMember=1, podSets=[{"name": "main", "count": 2, "minCount": 1}])
    run = scenes.solved(TWO_NODES, first, scenes.members(2, "a"), gang_of("b", 1))
    assert outcomes(run) == {"a": "node-0", "b": "node-1"}


def test_gangs_of_different_priority_are_not_weighed_against_each_other() -> None:
    run = scenes.solved(RACKS, in_one_rack("low", 5, "2026-01-01T00:00:00Z"), gang_of("high", 4, priority=1))
    assert [each.key.name for each in run.decisions] == ["high", "low"]
    assert run.decisions[0].proof == "Optimal"


def test_a_gang_without_a_place_after_others_is_not_called_infeasible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a joint plan in time, the first two gangs take one rack each, although the third gang needs a rack."""
    monkeypatch.setattr(planned_together, "SMALL", 0)
    monkeypatch.setattr(planned_together, "shared_workers", lambda: Clocked(0.0))
    run = scenes.solved(RACKS, COMPETING)
    assert [(each.outcome.value, each.proof) for each in run.decisions] == [
        ("Placed", "Feasible"),
        ("Placed", "Feasible"),
        ("Unplaceable", "Unproven"),
    ]
    before = "not proven that there is no place: planned after gangs default/first and default/second"
    assert run.decisions[2].message.startswith(before)


class Counted:
    """The workers, with a count of the single-gang problems that they received."""

    def __init__(self) -> None:
        self.asked = 0

    def solve(self, problem: Problem, limits: Limits) -> Answer:
        """The real answer."""
        self.asked += 1
        return shared_workers().solve(problem, limits)


def test_equal_gangs_without_room_are_refused_by_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nodes hold one pod each. Eight of ten gangs of one pod do not fit; the solver gets one of them only."""
    workers = Counted()
    monkeypatch.setattr(planned_together, "SMALL", 0)
    monkeypatch.setattr(planner, "shared_workers", lambda: workers)
    run = scenes.solved(TWO_NODES, *(gang_of(f"g{number}", 1) for number in range(10)))
    assert [each.outcome for each in run.decisions].count(Outcome.UNPLACEABLE) == 8
    assert {each.proof for each in run.decisions} == {"Feasible", "Infeasible"}
    assert workers.asked == 1
