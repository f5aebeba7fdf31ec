"""Requests of one namespace do not delay the planning of another's gangs, and the order of planning is kept.

r1: n1, n2      r2: n3      each node holds one pod of 4 cpu
"""

from dataclasses import replace
from itertools import pairwise

import msgspec
import pytest
from planning_bench import Bench, members, named, picture, slowed
from protocol_scenes import pod

from controller.scheduling.capacity_bound import CapacityBound
from controller.scheduling.demand import MinimumDemand
from controller.scheduling.infeasible_queue import OVERDUE_SECONDS
from controller.scheduling.shares import MOST_AWAY, Shares
from gangs.model import Gang, GangKey, PodSet
from kube.objects import PodStatus
from planning.decision import Outcome

pytestmark = pytest.mark.repetitive

LATE = "2026-02-01T00:00:00Z"


@pytest.fixture
def bench() -> Bench:
    """A planner whose clock also counts the time of solves."""
    return Bench()


def enormous(number: int, namespace: str = "greedy", count: int = 1_200) -> list[Gang]:
    """Return gangs that fit nowhere and take long to reject. They differ, as equal ones would share a rejection."""
    gangs = []
    for each in range(number):
        name = f"{namespace}-{each}"
        gangs.append(named(name, *members(name, count + each), namespace=namespace))
    return gangs


def asked(bench: Bench) -> set[str]:
    """The gangs that are being planned."""
    gangs = bench.queue._gangs.values()  # noqa: SLF001 -- pending requests are private
    return {queued.key.name for queued in gangs if queued.pending is not None}


def test_who_may_have_a_place_does_not_wait_for_noes_that_are_certain(bench: Bench) -> None:
    """The small gang is the youngest of them."""
    crowd, small = enormous(4), named("small", *members("s", 2), namespace="modest", created=LATE)
    bench.round(*crowd, small)
    assert asked(bench) == {"small"}
    bench.fast.run()
    assert bench.round(*crowd, small)["small"] is Outcome.PLACED


def test_those_that_fit_nowhere_get_their_answers_namespace_by_namespace(bench: Bench) -> None:
    """The many gangs of one namespace do not delay the other's rejections, and every gang is answered in the end."""
    crowd = [*enormous(8), *enormous(2, "other")]
    told: list[str] = []
    for _ in range(30):
        answers = bench.round(*crowd)
        told += [name for name, outcome in answers.items() if outcome is Outcome.UNPLACEABLE and name not in told]
        bench.fast.run()
        bench.slow.run()
        bench.clock.now += 1
    assert len(told) == len(crowd)
    assert {each.partition("-")[0] for each in told[:4]} == {"greedy", "other"}
    assert all(name.startswith("greedy") for name in told[4:])


def test_when_room_comes_free_the_oldest_is_first_again(bench: Bench) -> None:
    """Counting defers only gangs without a place. Of two gangs with a place, the older is planned with the younger."""
    full = [pod(f"x-{name}", bound=name) for name in ("n1", "n2")]
    crowd, old = enormous(3), named("old", *members("o", 2), namespace="greedy")
    late = named("late", *members("l", 2), namespace="modest", created=LATE)
    bench.round(*crowd, old, on=picture(*full))
    bench.fast.run()
    bench.round(*crowd, old, late, on=picture(version="2"))
    bench.fast.run()
    told = bench.round(*crowd, old, late, on=picture(version="2"))
    assert told["old"] is Outcome.PLACED
    assert told["late"] is Outcome.UNPLACEABLE


def test_an_infeasible_gang_that_may_fit_now_is_planned_at_once(bench: Bench) -> None:
    """The gang is planned without its earlier answer. Otherwise a younger gang could get the capacity meanwhile."""
    full = [pod(f"x-{name}", bound=name) for name in ("n1", "n2", "n3")]
    old = named("old", *members("o", 2), namespace="first")
    crowd = enormous(2, count=2_148)
    bench.round(old, *crowd, on=picture(*full))
    assert "old" in asked(bench)
    bench.fast.works, stuck = [], bench.fast.works
    late = named("late", *members("l", 2), namespace="modest", created=LATE)
    bench.round(old, *crowd, late, on=picture(version="2"))
    assert {"old", "late"} <= asked(bench)
    bench.fast.works += stuck
    bench.fast.run()
    assert bench.round(old, *crowd, late, on=picture(version="2"))["old"] is Outcome.PLACED


def test_two_proven_rejections_leave_the_processor_to_other_work_between_them(bench: Bench) -> None:
    crowd = enormous(4)
    bench.round(*crowd)
    bench.clock.now += 2.0  # so long it takes
    bench.fast.run()
    bench.round(*crowd)
    assert not bench.fast.works
    assert not bench.slow.works
    bench.clock.now += 2 * 2.0
    bench.round(*crowd)
    assert bench.fast.works


def test_those_that_fit_nowhere_are_planned_even_if_others_are_all_the_time(bench: Bench) -> None:
    """The fast lane is never idle; once in a while they are planned beside it."""
    crowd, small = enormous(4), named("small", *members("s", 2), namespace="modest")
    bench.round(*crowd, small)
    assert asked(bench) == {"small"}
    bench.clock.now += OVERDUE_SECONDS
    bench.round(*crowd, small)
    assert asked(bench) == {"small", "greedy-0", "greedy-1"}
    bench.slow.run()
    assert Outcome.UNPLACEABLE in bench.round(*crowd, small).values()


def test_all_of_one_namespace_are_told_before_one_is_told_again(bench: Bench) -> None:
    """Each no is too old by the time of the next turn. Equals keep their order: the oldest first."""
    crowd = enormous(3)
    turns: list[str] = []
    for version in range(5):
        bench.round(*crowd, on=picture(version=str(version)))
        turns.append(" ".join(sorted(asked(bench))))
        bench.clock.now += 1
        bench.fast.run()
        bench.round(*crowd, on=picture(version=str(version)))
        bench.clock.now += 1000
    assert turns == ["greedy-0", "greedy-1", "greedy-2", *turns[:2]]


def test_who_changes_before_each_of_its_answers_keeps_nobody_of_its_namespace_behind(bench: Bench) -> None:
    """The answer to an earlier request is useless. The next round-robin share does not go to the same gang."""
    crowd, turns = enormous(3), list[str]()
    for version in range(3):
        here = picture(version=str(version))
        bench.round(*crowd, on=here)
        turns.append(" ".join(sorted(asked(bench))))
        crowd[:2] = [replace(each, min_member=1_199 - version) for each in crowd[:2]]
        bench.round(*crowd, on=here)
        bench.clock.now += 1
        bench.fast.run()
        bench.round(*crowd, on=here)
        bench.clock.now += 1000
    assert turns == ["greedy-0", "greedy-1", "greedy-2"]


def test_who_is_overdue_for_being_told_why_it_fits_nowhere_goes_before_the_patient_ones(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fast lane is never idle, and there are always more gangs that take long."""
    crowd = [named(f"crowd-{each}", *members(f"c{each}", 1_200)) for each in range(2)]
    hard = [named(f"hard-{each}", *members(f"h{each}", 1)) for each in range(4)]
    slow = slowed(bench, monkeypatch)
    for each in hard:
        slow(each.key.name, 1000.0)
    bench.round(*hard)
    bench.fast.run()
    small = named("small", *members("s", 1))
    told: list[str] = []
    for _ in range(4):
        outcomes = bench.round(small, *hard, *crowd)
        told += [name for name in ("crowd-0", "crowd-1") if outcomes[name] is Outcome.UNPLACEABLE]
        bench.slow.run()
    assert {"crowd-0", "crowd-1"} <= set(told)
    gangs = bench.queue._gangs.values()  # noqa: SLF001 -- who waits for the lane is not told
    assert any(queued.needs_more_time for queued in gangs)


def test_what_waits_for_pods_is_told_so_whether_it_would_fit_or_not(bench: Bench) -> None:
    """Until it has them, in whatever round."""
    crowd, short = enormous(2), enormous(1, "short")[0]
    short = replace(short, members=short.members[:-1])
    for version in ("1", "2", "3"):
        told = bench.round(*crowd, short, on=picture(version=version))
        assert told["short-0"] is Outcome.WAITING
        assert "short-0" not in asked(bench)
        bench.clock.now += 10
    told = bench.round(*crowd, *enormous(1, "short"), on=picture(version="3"))
    assert told["short-0"] is not Outcome.WAITING


def test_nobody_is_planned_together_with_one_that_fits_nowhere(bench: Bench) -> None:
    """This holds even for few gangs. The older gang is rejected with a reason as soon as the lane is idle again."""
    wide, pair = named("wide", *members("w", 9)), named("pair", *members("p", 2), created=LATE)
    bench.round(wide, pair)
    assert asked(bench) == {"pair"}
    bench.fast.run()
    assert bench.round(wide, pair)["pair"] is Outcome.PLACED
    assert asked(bench) == {"wide"}


def test_one_that_fits_nowhere_is_planned_at_once_if_nobody_else_is(bench: Bench) -> None:
    bench.round(named("wide", *members("w", 9)))
    assert asked(bench) == {"wide"}


def test_who_comes_waits_for_one_certain_no_at_most(bench: Bench) -> None:
    """Gangs that fit nowhere are planned one at a time in the fast lane."""
    crowd, late = enormous(9), named("late", *members("l", 2), created=LATE)
    bench.round(*crowd)
    assert asked(bench) == {"greedy-0"}
    bench.fast.run()
    bench.round(*crowd, late)
    assert asked(bench) == {"late"}


def test_those_that_were_told_are_told_anew_at_a_twentieth_of_the_price(bench: Bench) -> None:
    """Until every gang has its first answer, the pauses between two solves take only half of the time."""
    crowd = [named(f"crowd-{each}", *members(f"c{each}", 4 + each)) for each in range(2)]
    told: list[float] = []
    for number in range(200):
        bench.clock.now += 1.0
        there = [pod("comes-and-goes", bound="n3")] if number % 2 else []
        bench.round(*crowd, on=picture(*there, version=str(number)))
        if bench.fast.works:
            told.append(bench.clock.now)
            bench.clock.now += 1.0
            bench.fast.run()
    pauses = [after - before - 1 for before, after in pairwise(told)]
    assert max(pauses[:2]) < 4, pauses
    assert len(pauses) > 4
    assert all(19 <= each < 23 for each in pauses[2:]), "19 times the second that it took"


def test_a_round_comes_when_the_next_one_is_due(bench: Bench) -> None:
    crowd = enormous(3)
    bench.round(*crowd)
    assert bench.queue.due == float("inf"), "its answer brings the next round"
    bench.clock.now += 1.0
    bench.fast.run()
    began = bench.clock.now
    bench.round(*crowd)
    assert began < bench.queue.due <= began + 3
    bench.clock.now = bench.queue.due
    bench.round(*crowd)
    assert asked(bench) == {"greedy-1"}


COUNTED = [
    # the change, members, pods there, whether there may be a place
    ("as many as there are nodes", members("g", 3), [], True),
    ("one more", members("g", 4), [], False),
    ("one node is taken", members("g", 3), [pod("x", bound="n3")], False),
    ("by one that is on its way out", members("g", 3), [pod("x", bound="n3", terminating=True)], True),
    ("by a lesser one", members("g", 3), [pod("x", bound="n3", priority=1)], True),
    ("by one that is more important", members("g", 3), [pod("x", bound="n3", priority=20)], False),
    ("held for one like it, or for itself", members("g", 3), [pod("x", nominated="n3")], True),
    ("held for one that is more important", members("g", 3), [pod("x", nominated="n3", priority=20)], False),
    (
        "by one that is more important and about to be evicted",
        members("g", 3),
        [pod("leaving", bound="n3", priority=20)],
        True,
    ),
    ("one of them runs", [*members("g", 3), pod("y", bound="n1")], [pod("y", bound="n1")], True),
    ("one more, and a request that nobody can read", [*members("g", 4), pod("bad", cpu="-1")], [], True),
    ("one more, of another priority", [*members("g", 4), pod("other", priority=11)], [], True),
    ("half of them ask for less", [*members("g", 3), *(pod(f"h-{n}", cpu="1") for n in range(3))], [], True),
]


@pytest.mark.parametrize(("what", "pods", "there", "may"), COUNTED, ids=[each[0] for each in COUNTED])
def test_what_counting_leaves_open(what: str, pods: list[object], there: list[object], *, may: bool) -> None:
    gang = named("g", *pods)  # type: ignore[arg-type]
    snapshot = replace(picture(*there).snapshot, leaving=frozenset({"default/leaving"}))  # type: ignore[arg-type]
    assert CapacityBound().update(snapshot, ()).may_hold(MinimumDemand(gang)) is may, what


def test_counting_minds_what_must_start_together_and_nothing_else() -> None:
    bound, gang = CapacityBound().update(picture().snapshot, ()), named("g", *members("g", 9))
    assert bound.may_hold(MinimumDemand(replace(gang, min_member=3, pod_sets=(PodSet("main", 9, 2),))))
    assert not bound.may_hold(MinimumDemand(replace(gang, min_member=3, pod_sets=(PodSet("main", 9, 4),))))
    assert bound.may_hold(MinimumDemand(replace(gang, min_member=9, succeeded=6)))
    assert bound.may_hold(MinimumDemand(replace(gang, queue="team"))), "a queue has an order of its own"


def keys(*names: str) -> list[GangKey]:
    """Gangs by `namespace/name`."""
    return [GangKey("phalanx", *each.split("/")) for each in names]


def test_the_turn_is_the_namespaces_that_has_had_the_least() -> None:
    shares, waiting = Shares(), keys("a/1", "a/2", "a/3", "b/1", "b/2")
    found = [str(key.namespace + key.name) for key in shares.next_ones(waiting, lambda _: 1, 4)]
    assert found == ["a1", "b1", "a2", "b2"]
    costs = {"a1": 10, "b1": 1, "b2": 1, "b3": 1}
    found = [
        key.namespace + key.name
        for key in Shares().next_ones(
            keys("a/1", "a/2", "b/1", "b/2", "b/3"), lambda key: costs[key.namespace + key.name], 13
        )
    ]
    assert found == ["a1", "b1", "b2", "b3"]


def test_nobody_saves_up_turns_and_nobody_is_behind_for_ever() -> None:
    shares = Shares()
    shares.next_ones(keys("a/1"), lambda _: 1000, 1)
    shares.next_ones(keys("a/1", "b/1"), lambda _: 1, 1)
    found = shares.next_ones(keys("b/1", "c/1", "c/2"), lambda _: 1, 3)
    assert {key.namespace for key in found[:2]} == {"b", "c"}


def served(shares: Shares, *waiting: str, most: float = 1) -> str:
    """Return the gangs that are served next, each at a price of one."""
    return " ".join(f"{key.namespace}/{key.name}" for key in shares.next_ones(keys(*waiting), lambda _: 1, most))


def test_who_was_away_for_a_moment_has_had_what_he_has_had() -> None:
    """A gang of young is answered at once and comes again in every other call. The gang of old waits all the time."""
    shares, told = Shares(), list[str]()
    for _ in range(4):
        told.append(served(shares, "young/1", "old/1"))
        if told[-1] == "young/1":
            told.append(served(shares, "old/1", "other/1"))
    assert told.count("old/1") >= 3
    shares = Shares()
    assert served(shares, "a/1", "b/1", most=4) == "a/1 b/1"
    assert served(shares, "a/1", "a/2", "b/1", most=3) == "a/1 b/1 a/2"
    assert served(shares, "b/1", "c/1") == "b/1"
    assert served(shares, "a/1", "b/1", "c/1") == "c/1"
    assert served(shares, "a/1", "b/1", "c/1", most=2) == "a/1 b/1"


def test_between_equals_it_is_the_turn_of_whoever_was_served_longest_ago() -> None:
    shares = Shares()
    assert served(shares, "a/1", "b/1", "c/1", most=3) == "a/1 b/1 c/1"
    assert served(shares, "c/1", "b/1", "a/1", most=3) == "a/1 b/1 c/1"


def test_namespaces_without_end_do_not_keep_one_from_its_turn_and_are_forgotten() -> None:
    shares, last = Shares(), 0
    served(shares, "patient/1")
    for number in range(1000):
        told = served(shares, f"new-{number}/1", f"new-{number}/2", "patient/1", most=1)
        last = number if told == "patient/1" else last
        served(shares, f"alone-{number}/1")
    assert last > 900
    assert len(shares._had) < 10  # noqa: SLF001 -- what is remembered is not told
    for number in range(2 * MOST_AWAY):
        served(shares, f"alone-{number}/1")
    assert len(shares._had) <= MOST_AWAY + 1  # noqa: SLF001


def test_a_gang_that_is_read_again_and_asks_for_the_same_is_not_compared_in_every_round(bench: Bench) -> None:
    """A status change of its first pod has the gang read again.

    Without the shortcut, each later round compared and counted thousands of members again: 50 ms each time.
    """
    (crowd,) = enormous(1, count=2_048)
    bench.round(crowd)
    queued = bench.queue._gangs[crowd.key]  # noqa: SLF001 -- what is remembered is not told
    request, demand = queued.request, queued.demand
    first, *others = crowd.members
    said = msgspec.structs.replace(first.pod, status=PodStatus(phase="Pending", nominated_node_name=""))
    again = replace(crowd, members=(replace(first, pod=said), *others))
    bench.round(again)
    assert queued.gang is again
    assert queued.request is request
    assert queued.demand is demand
