"""Planning runs beside the rounds: the result of a round before, during and after a planning request.

r1: n1, n2      r2: n3      each node holds one pod of 4 cpu
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

import msgspec
import pytest
from planning_bench import FULL, Bench, Slow, members, named, picture, slowed
from protocol_scenes import RACK, pod

from controller.scheduling import planning_queue as deciding
from controller.scheduling import rejections
from gangs.quota_model import Account, ClusterQueue, Flavor, FlavorQuotas, Quota, ResourceGroup
from kube.objects import Affinity, LabelSelector, Pod, PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from planning.decision import Decision, Outcome
from solver.plan import Proof


@pytest.fixture
def bench() -> Bench:
    """A planner whose clock also counts the time of solves."""
    return Bench()


@pytest.fixture
def slow(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Slow:
    """Makes gangs hard."""
    return slowed(bench, monkeypatch)


def test_a_round_does_not_wait_and_a_later_one_takes_the_plan_up_once(bench: Bench) -> None:
    pair = named("pair", *members("p", 2))
    assert bench.round(pair) == {"pair": None}
    assert bench.round(pair) == {"pair": None}
    assert bench.being_planned() == 1
    bench.fast.run()
    assert bench.round(pair) == {"pair": Outcome.PLACED}
    assert bench.being_planned() == 0
    assert bench.nodes("pair") == ["n1", "n2"]
    assert bench.round(pair) == {"pair": None}, "nobody carried it out: it is asked again"


def test_nothing_is_said_of_a_gang_that_is_planned_since_a_moment_ago(bench: Bench) -> None:
    pair = named("pair", *members("p", 2))
    bench.round(pair)
    assert bench.queue.quiet(pair.key)
    bench.clock.now += deciding.QUIET_SECONDS
    bench.round(pair)
    assert not bench.queue.quiet(pair.key)


def test_what_needs_no_solver_is_said_at_once(bench: Bench) -> None:
    short = replace(named("short", *members("s", 1)), min_member=2)
    assert bench.round(short) == {"short": Outcome.WAITING}
    assert bench.fast.idle


def test_in_a_strict_queue_who_is_behind_is_not_asked_until_the_one_before_is_gone(bench: Bench) -> None:
    queue = ClusterQueue("pool", (ResourceGroup(("cpu",), (FlavorQuotas("any", (Quota("cpu", "12"),)),)),), strict=True)
    account = Account(replace(queue, namespaces=LabelSelector()), (Flavor("any", (), topology="t"),))
    wide = replace(named("wide", *members("w", 3)), account=account)
    late = replace(named("late", *members("l", 1)), account=account, created="2026-01-01T00:00:01Z")
    for _ in range(3):
        told = bench.round(late, wide)
        assert told["late"] is Outcome.WAITING
        bench.fast.run()
    assert told["wide"] is Outcome.UNPLACEABLE
    assert bench.round(late) == {"late": None}
    bench.fast.run()
    assert bench.round(late) == {"late": Outcome.PLACED}


def test_a_no_is_said_until_there_is_another_answer(bench: Bench) -> None:
    wide = named("wide", *members("w", 3))
    bench.round(wide)
    bench.fast.run()
    assert bench.round(wide) == {"wide": Outcome.UNPLACEABLE}
    bench.clock.now += 1000
    assert bench.round(wide, on=picture(version="2")) == {"wide": Outcome.UNPLACEABLE}
    assert not bench.fast.idle, "it is asked again"
    bench.fast.run()


@pytest.mark.parametrize("proof", [Proof.INFEASIBLE, Proof.UNPROVEN])
def test_a_no_is_kept_while_nothing_has_changed_proven_or_not(bench: Bench, slow: Slow, proof: Proof) -> None:
    wide = named("wide", *members("w", 3))
    slow("wide", 1000.0 if proof is Proof.UNPROVEN else 0.0)
    bench.round(wide)
    bench.fast.run()
    bench.round(wide)
    bench.slow.run()
    for _ in range(3):
        assert bench.round(wide) == {"wide": Outcome.UNPLACEABLE}
        decision = bench.last[wide.key]
        assert decision is not None
        assert decision.proof == proof.value
        assert bench.fast.idle
        assert bench.slow.idle
        bench.clock.now += 1000


MORE = pod("x", bound="n3")
LATER = [
    # the change, pods before, pods after, whether the gang is planned again
    ("one more pod", [], [MORE], False),
    ("nothing but the version", [MORE], [MORE], False),
    ("room that was held is used", [pod("x", nominated="n3")], [MORE], False),
    ("one of lower priority, who might be evicted", [], [pod("x", bound="n3", priority=1)], True),
    ("a pod has gone", [MORE], [], True),
    ("a pod is going", [MORE], [pod("x", bound="n3", terminating=True)], True),
    ("a pod has shrunk", [MORE], [pod("x", bound="n3", cpu="2")], True),
    ("a pod is on another node", [MORE], [pod("x", bound="n2")], True),
]


@pytest.mark.parametrize(("what", "before", "after", "again"), LATER, ids=[each[0] for each in LATER])
def test_a_proven_no_stands_while_the_cluster_only_becomes_fuller(
    bench: Bench, what: str, before: list[Pod], after: list[Pod], *, again: bool
) -> None:
    wide = named("wide", *members("w", 3))
    bench.round(wide, on=picture(*before))
    bench.fast.run()
    bench.round(wide, on=picture(*before))
    bench.clock.now += rejections.PROVEN_RETRIES.longest
    bench.round(wide, on=picture(*after, version="2"))
    assert bench.fast.idle != again, what


@pytest.mark.parametrize("sensitive", ["queue", "near", "spread"])
def test_a_no_that_more_pods_may_turn_is_asked_again(bench: Bench, sensitive: str) -> None:
    near = Affinity(pod_affinity=PodAffinity(required=(PodAffinityTerm(topology_key=RACK),)))
    spread = (TopologySpreadConstraint(topology_key=RACK),)
    pods = members("w", 3)
    if sensitive != "queue":
        more = {"affinity": near} if sensitive == "near" else {"topology_spread_constraints": spread}
        pods = [msgspec.structs.replace(each, spec=msgspec.structs.replace(each.spec, **more)) for each in pods]
    wide = replace(named("wide", *pods), queue="team" if sensitive == "queue" else None)
    bench.round(wide)
    bench.fast.run()
    bench.round(wide)
    bench.clock.now += rejections.UNPROVEN_RETRIES.longest
    bench.round(wide, on=picture(MORE, version="2"))
    decision = bench.last[wide.key]
    assert not bench.fast.idle or (decision and decision.outcome is Outcome.WAITING)


def test_a_no_beside_a_plan_falls_with_that_plan(bench: Bench) -> None:
    """The late gang finds the rack taken by a plan.

    If the planned pods never arrive, its rejection no longer holds. If the plan is carried out, the rejection holds.
    """
    pair, late = named("pair", *members("p", 2, 20)), named("late", *members("l", 2))
    bench.round(pair, late)
    bench.fast.run()
    assert bench.round(pair, late) == {"pair": Outcome.PLACED, "late": Outcome.UNPLACEABLE}
    bench.clock.now += rejections.PROVEN_RETRIES.longest
    carried_out = [pod(f"p-{index}", bound=f"n{index + 1}", priority=20) for index in range(2)]
    bench.round(late, on=picture(*carried_out, MORE, version="2"))
    assert bench.fast.idle
    bench.round(late, on=picture(MORE, version="3"))
    assert not bench.fast.idle


def test_a_no_that_stands_is_given_anew_after_a_while(bench: Bench) -> None:
    wide = named("wide", *members("w", 3))
    bench.round(wide)
    bench.fast.run()
    bench.round(wide)
    bench.clock.now += 2 * rejections.FRESH_SECONDS
    bench.round(wide, on=picture(MORE, version="2"))
    assert not bench.fast.idle


def test_an_unproven_no_is_asked_again_after_growing_pauses_where_the_cluster_changes(bench: Bench, slow: Slow) -> None:
    wide, asked, version = named("wide", *members("w", 3)), list[float](), 1
    slow("wide", 1000.0)
    begun = bench.clock.now
    while bench.clock.now < begun + 300:
        version += 1
        bench.round(wide, on=picture(version=str(version)))
        if not bench.fast.idle:
            asked.append(bench.clock.now)
        bench.fast.run()
        bench.slow.run()
        bench.clock.now += 1
    pauses = [int(after - before) for before, after in pairwise(asked)]
    assert pauses[0] >= 4 * rejections.FAST_LANE_SECONDS
    assert pauses == sorted(pauses)
    assert pauses[-1] <= rejections.UNPROVEN_RETRIES.longest + FULL.seconds + rejections.FAST_LANE_SECONDS + 2


def test_a_gang_that_takes_long_holds_up_nobody(bench: Bench, slow: Slow) -> None:
    """The hog continues in the slow lane. The pair, which is younger and of lower priority, is placed meanwhile."""
    hog, pair = named("hog", *members("h", 3, 20)), named("pair", *members("p", 2))
    slow("hog", 1000.0)
    bench.round(hog)
    bench.fast.run()
    assert bench.clock.now == 100 + rejections.FAST_LANE_SECONDS
    bench.round(hog, pair)
    assert not bench.slow.idle
    bench.fast.run()
    assert bench.round(hog, pair) == {"hog": Outcome.UNPLACEABLE, "pair": Outcome.PLACED}
    bench.slow.run()
    bench.round(hog)
    assert bench.clock.now == 100 + rejections.FAST_LANE_SECONDS + FULL.seconds


def test_more_time_is_given_once_and_brings_the_better_plan(bench: Bench, slow: Slow) -> None:
    pair = named("pair", *members("p", 2))
    slow("pair", 20.0, Proof.FEASIBLE)
    bench.round(pair)
    bench.fast.run()
    assert bench.round(pair) == {"pair": None}
    bench.slow.run()
    assert bench.round(pair) == {"pair": Outcome.PLACED}
    decision = bench.last[pair.key]
    assert decision is not None
    assert decision.proof == Proof.OPTIMAL.value


def test_a_plan_for_which_there_is_no_more_time_is_good_enough(bench: Bench, slow: Slow) -> None:
    """The slow lane is busy with another gang. Meanwhile no other gang gets the capacity that the fast lane found."""
    hog, pair, late = named("hog", *members("h", 3, 20)), named("pair", *members("p", 2)), members("l", 2)
    slow("hog", 1000.0)
    slow("pair", 20.0, Proof.FEASIBLE)
    bench.round(hog)
    bench.fast.run()
    bench.round(hog, pair)
    assert not bench.slow.idle
    bench.fast.run()
    rival = named("rival", *late)
    assert bench.round(hog, pair, rival)["pair"] is None
    bench.fast.run()
    assert bench.round(hog, pair, rival)["rival"] is Outcome.UNPLACEABLE
    bench.clock.now += FULL.seconds
    assert bench.round(hog, pair, rival)["pair"] is Outcome.PLACED


def test_who_is_more_important_may_have_the_room_of_a_plan_that_waits_for_a_better_one(
    bench: Bench, slow: Slow
) -> None:
    pair, chief = named("pair", *members("p", 2)), named("chief", *members("c", 2, 20))
    slow("pair", 1000.0, Proof.FEASIBLE)
    bench.round(pair)
    bench.fast.run()
    bench.round(pair, chief)
    bench.fast.run()
    assert bench.round(pair, chief) == {"pair": None, "chief": Outcome.PLACED}
    assert bench.nodes("chief") == ["n1", "n2"]
    bench.slow.run()
    nominated = [pod(f"c-{index}", nominated=f"n{index + 1}", priority=20) for index in range(2)]
    assert bench.round(pair, on=picture(*nominated, version="2")) == {"pair": None}
    assert bench.stale() == 2, "neither the better plan nor the one before stands"


def test_nobody_is_overtaken_twice_in_a_row(bench: Bench, slow: Slow) -> None:
    """A plan that took long to find and came too late: next time those after it wait for it."""
    hard = named("hard", *members("h", 2))
    slow("hard", 20.0)
    bench.round(hard)
    bench.fast.run()
    bench.round(hard)
    bench.slow.run()
    taken = picture(pod("f-0", bound="n1"), version="2")
    assert bench.round(hard, on=taken) == {"hard": None}
    assert bench.stale() == 1
    bench.fast.run()
    assert bench.clock.now == 100 + rejections.FAST_LANE_SECONDS + 20 + 20, "with all its time, in the fast lane"


@pytest.mark.parametrize(
    ("what", "others", "stands"),
    [
        ("nothing that matters", [pod("x", bound="n3")], True),
        ("a node of the plan is taken", [pod("x", bound="n2")], False),
        ("its capacity is reserved by an equal", [pod("x", nominated="n1")], False),
        ("its capacity is reserved by a lesser one", [pod("x", nominated="n1", priority=1)], True),
        ("who has it is on its way out", [pod("x", bound="n2", terminating=True)], True),
    ],
)
def test_a_plan_is_taken_up_only_if_it_still_stands(
    bench: Bench, what: str, others: list[Pod], *, stands: bool
) -> None:
    pair = named("pair", *members("p", 2))
    bench.round(pair)
    bench.fast.run()
    outcome = Outcome.PLACED if stands else None
    assert bench.round(pair, on=picture(*others, version="2")) == {"pair": outcome}, what
    assert bench.stale() == (0 if stands else 1)
    assert bench.fast.idle == stands, "it is planned again at once"


def test_a_plan_with_victims_falls_when_they_need_not_go_any_more(bench: Bench) -> None:
    old = [pod(f"o-{name}", bound=name, priority=1) for name in ("n1", "n2")]
    pair = named("pair", *members("p", 2))
    bench.round(pair, on=picture(*old))
    bench.fast.run()
    assert bench.round(pair, on=picture(version="2")) == {"pair": None}
    bench.fast.run()
    assert bench.round(pair, on=picture(version="2")) == {"pair": Outcome.PLACED}
    decision = bench.last[pair.key]
    assert decision is not None
    assert decision.evictions == ()


def test_an_answer_to_what_is_not_asked_any_more_is_not_heard(bench: Bench) -> None:
    pair = named("pair", *members("p", 2))
    bench.round(pair)
    changed = replace(pair, required=None)
    bench.round(changed)
    bench.fast.run()
    assert bench.round(changed) == {"pair": None}
    bench.fast.run()
    assert bench.round(changed) == {"pair": Outcome.PLACED}


def test_a_gang_that_is_gone_or_held_off_keeps_no_room(bench: Bench) -> None:
    first, second = named("first", *members("f", 2)), named("second", *members("s", 2))
    bench.round(first)
    bench.fast.run()
    bench.queue.hold_off(first, "its time is over")
    bench.round(second)
    bench.fast.run()
    assert bench.round(second) == {"second": Outcome.PLACED}
    assert bench.nodes("second") == ["n1", "n2"]


def test_gangs_that_come_together_are_planned_together(bench: Bench) -> None:
    """The more important one first, whatever the order in which they are named."""
    lesser, chief = named("lesser", *members("l", 2)), named("chief", *members("c", 2, 20))
    bench.round(lesser, chief)
    bench.fast.run()
    assert bench.round(lesser, chief) == {"lesser": Outcome.UNPLACEABLE, "chief": Outcome.PLACED}


def test_an_error_that_stops_a_whole_question_is_not_asked_again_at_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even the fallback that isolates the faulty gang fails."""

    def failing(*_: object, **__: object) -> Iterable[Sequence[Decision]]:
        """Nothing works."""
        raise ArithmeticError

    monkeypatch.setattr(deciding, "planning_results", failing)
    pair = named("pair", *members("p", 2))
    bench.round(pair)
    with pytest.raises(ArithmeticError):
        bench.fast.run()
    bench.fast.works.clear()
    assert bench.round(pair) == {"pair": Outcome.UNPLACEABLE}
    assert bench.fast.idle
    bench.clock.now += rejections.HOLD_SECONDS
    bench.round(pair)
    assert not bench.fast.idle
