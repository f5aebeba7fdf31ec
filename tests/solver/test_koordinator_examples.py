"""Examples in which Koordinator's gang scheduling is worse than the best plan: rows A to L, with its result in words.

Nodes hold one pod unless a number says more; spines are the wide level, blocks the narrow one.
"""

import pytest
from drawings import Drawing, pods
from greedy_examples import NARROW, WIDE, Example, hold, puts

from solver.problem import Multiple

ONE_SPINE_OF_FOUR_MORE = """
    s1/b0: a0 a1
    s1/b1: a2 a3
    s1/b2: a4
    s2/b3: c0 c1 c2 c3
"""

TWO_SPINES = Drawing("""
    x/b0: a=4
    x/b1: b=2
    y/b2: c=6
    y/b3: d=4
""")

EXAMPLES = [
    Example(
        "A",
        "picks n0..n3, the first nodes of the cleared block: 3 victims where 1 is enough",
        Drawing("s/b: n0+low n1+low n2+low n3 n4 n5").gang(pods(4), required=NARROW),
        puts("n0 n3 n4 n5", evicting="low-0"),
        walk=puts("n0 n1 n2 n3", evicting="low-*3"),
    ),
    Example(
        "B",
        "takes s1, the tighter spine: 4 victims where s0 costs 1",
        Drawing("""
            s0/b: a0 a1 a2 a3+low a4+low
            s1/b: b0+other b1+other b2+other b3+other
        """).gang(pods(4), required=WIDE),
        puts("a0 a1 a2 a3", evicting="low-0"),
        walk=puts("b0 b1 b2 b3", evicting="other-*4"),
    ),
    Example(
        "C",
        "passes the cost on with the wrong sign: evicts the higher priority, in b1",
        Drawing(
            """
            s/b0: a0+low a1+low
            s/b1: b0+mid b1+mid
            """,
            priorities={"low": 1, "mid": 500},
        ).gang(pods(2)),
        puts("a0 a1", evicting="low-*2"),
        walk=puts("b0 b1", evicting="mid-*2"),
    ),
    Example(
        "D",
        "two nodes of 32 cpu: forgets to put victims back where the planned pods still fit, 4 victims instead of 2",
        Drawing("s/b: a=4+big+small b=4+big+small", sizes={"big": 20, "small": 8}).gang(pods(2), asks=(24,)),
        puts("a b", evicting="big-*2"),
        walk=puts("a b", evicting="big-*2 small-*2"),
    ),
    Example(
        "E",
        "counts slots pod by pod, in order, sees 1 + 1 for 8, 8, 1 and 1, and says that it cannot be",
        Drawing("s/b: a=10 b=10").gang(pods(4, shapes=[0, 0, 1, 1]), asks=(8, 1), required=NARROW),
        puts("a b a a"),
    ),
    Example(
        "F",
        "counts 3 + 2 slots for 1, 1, 8 and 8, puts an 8 on b and fails at the filter, for ever",
        Drawing("s/b: a=10 b=4").gang(pods(4, shapes=[0, 0, 1, 1]), asks=(1, 8), required=NARROW),
        None,
        walk=puts("a a a b"),
    ),
    Example(
        "G",
        "takes s1 (blocks of 2, 2, 1), which has less room to spare than s2 (4, 1): 3 blocks instead of 2",
        Drawing(f"{ONE_SPINE_OF_FOUR_MORE}s2/b4: d0").gang(pods(5)),
        puts("c0 c1 c2 c3 d0"),
        walk=puts("a0 a1 a2 a3 a4"),
    ),
    Example(
        "G-with-4-and-2",
        "the same where s2 has blocks of 4 and 2",
        Drawing(f"{ONE_SPINE_OF_FOUR_MORE}s2/b4: d0 d1").gang(pods(5)),
        puts("c0 c1 c2 c3 d0"),
        walk=puts("a0 a1 a2 a3 a4"),
    ),
    Example(
        "H",
        "takes the block of 3 and one of the block of 2, and leaves 1 and 1 instead of 2 whole",
        Drawing("""
            s/b0: a0 a1 a2
            s/b1: b0 b1
            s/b2: c0
        """).gang(pods(4)),
        puts("a0 a1 a2 c0"),
        walk=puts("a0 a1 a2 b0"),
    ),
    Example(
        "I",
        "asks for all 6 where 4 may start, and fails",
        Drawing("""
            s0/b: a0 a1 a2 a3
            s1/b: b0 b1 b2 b3
        """).gang(pods(6, minimum=4), minimum=4, required=WIDE),
        puts("a0 a1 a2 a3 - -"),
    ),
    Example(
        "J",
        "multiples of 2 in blocks and 3 in spines: wants 9 from y, gets 8 in pairs, ends at 10 of 12 and fails",
        TWO_SPINES.gang(pods(12), multiples=(Multiple(NARROW, 2), Multiple(WIDE, 3))),
        puts("a*4 b*2 c*6"),
    ),
    Example(
        "J-of-the-set",
        "the same where the multiples are those of its only set",
        TWO_SPINES.gang(pods(12, multiples=[Multiple(NARROW, 2), Multiple(WIDE, 3)])),
        puts("a*4 b*2 c*6"),
    ),
    Example(
        "K",
        "puts all 4 on one node and never looks whether the block holds a multiple of 8",
        Drawing("s/b: a=4 b=4").gang(pods(4), multiples=(Multiple(NARROW, 8),)),
        None,
        walk=puts("a*4"),
    ),
    Example(
        "L",
        "plans the member that was recreated alone, anywhere, though both must share a spine and its sibling is in s1",
        Drawing("""
            s0/b0: a0 a1
            s1/b1: b0=0 b1
        """).gang(pods(2, held={0: 2}), required=WIDE),
        puts("b0 b1"),
        walk=puts("b0 a0"),
    ),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=[each.id for each in EXAMPLES])
def test_the_plan_is_the_best_where_koordinator_loses(example: Example) -> None:
    hold(example)


def test_every_row_is_there() -> None:
    assert {each.id[0] for each in EXAMPLES} == set("ABCDEFGHIJKL")
