"""Why here and not next door: what the best plan elsewhere would cost."""

import pytest
from drawings import Drawing, placed, pods

from planning.messages.wording import why_here
from solver.explain.alternatives import next_door
from solver.plan import NextDoor
from solver.problem import Limits, Problem

LIMITS = Limits(10.0, 60.0)


def told(problem: Problem) -> str:
    """Return the sentence about the best alternative place; empty if there is none to compare."""
    beside = next_door(problem, placed(problem), LIMITS)
    return "" if beside is None else why_here(beside)


@pytest.mark.parametrize(
    ("drawing", "count", "sentence"),
    [
        ("s0/b0: a b\ns0/b1: c d e", 2, "block s0/b1 would leave more room behind"),
        ("s0/b0: a b\ns0/b1: c d", 2, "block s0/b1 is as good and comes later by name"),
        ("s0/b0: a b\ns0/b1: c", 2, "no other block can hold it"),
        ("s0/b0: a b\ns0/b1: c\ns0/b2: d", 2, "block s0/b1 and s0/b2 would take 2 instead of 1 domains of level block"),
        ("s0/b0: a b\ns0/b1: c d+low", 2, "block s0/b1 would cost 1 instead of 0 victims"),
        ("s0/b0: a=4\ns0/b1: b=2 c=2", 4, "block s0/b1 would take 2 instead of 1 domains of level node"),
    ],
)
def test_the_first_goal_in_which_the_other_is_worse(drawing: str, count: int, sentence: str) -> None:
    assert told(Drawing(drawing).gang(pods(count))) == sentence


def test_extra_members_that_would_find_no_room_next_door() -> None:
    room = Drawing("s0/b0: a b c\ns0/b1: d e")
    problem = room.gang(pods(3, minimum=2), minimum=2, required=1)
    assert told(problem) == "block s0/b1 would place 0 instead of 1 members beyond the minimum"


def test_a_gang_that_needs_everything_has_nothing_next_door() -> None:
    assert told(Drawing("s0/b0: a b\ns0/b1: c d").gang(pods(4))) == ""


def test_members_that_stay_where_they_are_leave_no_choice() -> None:
    room = Drawing("s0/b0: a b\ns0/b1: c d")
    assert told(room.gang(pods(2, held={0: 0}))) == ""


def test_nothing_is_said_that_more_time_would_take_back() -> None:
    """Members of three sizes: next door is a knapsack, in which the first plan found is hardly the best."""
    room = Drawing("s0/b0: a=16\ns0/b1: b=9 c=6 d=9 e=6\ns1/b2: f=3 g=5 h=7 i=6")
    problem = room.gang(pods(6, shapes=[3, 2, 3, 2, 1, 1]), asks=(5, 3, 2, 1))
    plan = placed(problem)
    whole = next_door(problem, plan, LIMITS)
    assert whole == NextDoor("block", (("s1", "b2"),), "compactness/node", "", 1, 2)
    told = [next_door(problem, plan, Limits(2.0**-exponent, 600.0)) for exponent in range(8, 18)]
    assert None in told
    assert {each for each in told if each is not None} <= {whole}


@pytest.mark.parametrize(
    ("goal", "part", "sentence"),
    [
        ("gangsBroken", "", "rack r would break 2 instead of 1 gangs"),
        ("evicted", "", "rack r would evict pods that hold more"),
        ("preferences", "", "rack r would fulfil less of the node preferences"),
        ("waste", "d/node", "rack r would leave room in 2 instead of 1 domains of level node"),
        ("ranks", "node", "rack r would part 2 instead of 1 neighbours by rank"),
        ("terminating", "", "rack r would use more capacity that terminating pods still hold"),
    ],
)
def test_every_goal_has_its_words(goal: str, part: str, sentence: str) -> None:
    assert why_here(NextDoor("rack", (("r",),), goal, part, 1, 2)) == sentence
