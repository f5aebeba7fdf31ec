"""Where Kueue's topology aware scheduling loses: rows 1 to 7, with what it does in words.

The wide level is its block, the narrow one its rack; numbers are pod slots of hosts.
"""

import pytest
from drawings import Drawing, pods
from greedy_examples import NARROW, NODE, WIDE, Example, hold, problem_of, puts

from solver.problem import Slice

ITS_OWN_TEST = """
    b/r1: a=1 b=4
    b/r2: c=3 d=4
"""

EXAMPLES = [
    Example(
        "1",
        "required block, 3 pods: the tightest block b1, with 2 hosts instead of 1",
        Drawing("""
            b1/r: a=2 b=2
            b2/r: c=5
        """).gang(pods(3), required=WIDE),
        puts("c*3"),
        walk=puts("a a b"),
    ),
    Example(
        "2",
        "preferred rack, 3 pods: the tighter rack B, with 2 hosts instead of 1",
        Drawing("""
            x/A: a=4
            y/B: b=1 c=2
        """).gang(pods(3)),
        puts("a*3"),
        walk=puts("b c c"),
    ),
    Example(
        "3",
        "required block, slices of 4 in a rack, 8 pods: below the rack the smallest hosts first, 1, 3, 3, 1 on 4 hosts",
        Drawing(ITS_OWN_TEST).gang(pods(8, slices=[Slice(NARROW, 4)]), required=WIDE),
        puts("b*4 d*4"),
        walk=puts("a b*3 c*3 d"),
    ),
    Example(
        "4",
        "the same with slices of 2 on a host inside: sorts before it has counted the inner slices, 3 hosts",
        Drawing(ITS_OWN_TEST).gang(pods(8, slices=[Slice(NARROW, 4), Slice(NODE, 2)]), required=WIDE),
        puts("b*4 d*4"),
        walk=puts("b*4 c*2 d*2"),
    ),
    Example(
        "5",
        "20 pods: the largest rack first, 19 + 1, which breaks two racks instead of keeping the 19 whole",
        Drawing("""
            b/r1: a=19
            b/r2: b=10
            b/r3: c=10
        """).gang(pods(20)),
        puts("b*10 c*10"),
        walk=puts("a*19 b"),
    ),
    Example(
        "6",
        "unconstrained, 8 pods: compares hosts without their racks, 5 + 3 across both",
        Drawing("""
            b/r1: a=7 b=5
            b/r2: c=6
        """).gang(pods(8)),
        (puts("a*7 b"), puts("a*3 b*5")),
        walk=puts("b*5 c*3"),
    ),
    Example(
        "7",
        "two pod sets in a rack each: the first takes the tight rack B, the only one with devices; workload refused",
        problem_of(
            ("cpu", "gpu"),
            {"b/A/a": (4, 0), "b/B/b": (3, 2)},
            [(1, 0), (1, 1)],
            pods(3, name="ps1", required=NARROW),
            pods(2, name="ps2", shapes=[1, 1], required=NARROW),
        ),
        puts("a*3", "b*2"),
    ),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=[each.id for each in EXAMPLES])
def test_the_plan_is_the_best_where_kueue_loses(example: Example) -> None:
    hold(example)


def test_every_row_is_there() -> None:
    assert {each.id for each in EXAMPLES} == set("1234567")
