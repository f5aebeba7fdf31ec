"""Where greedy walks down the tree go wrong, by letters: A to K and M to P, with what the schedulers do in words.

Racks are the narrow level, what is around them the wide one; numbers are free pod slots. L, the order of ranks along
two dimensions at once, is no goal of decision 2.
"""

from dataclasses import replace
from itertools import pairwise

import pytest
from drawings import PATIENT, Drawing, placed, pods, refused
from greedy_examples import NARROW, WIDE, Example, hold, problem_of, puts
from joining import in_one

from solver.multi_gang.joint import solve_joint
from solver.multi_gang.joint_problem import faults_of
from solver.plan import Proof
from solver.problem import Cap, DisruptionBudget, Exclusion, Problem, Shape, Together, Victim, VictimGang, victim_table

SIXTY_THREE = [f"r{rack}" for rack in range(1, 64)]


def two_sets_of_which_one_is_bound_to_r0() -> Problem:
    """Racks r0 with 4 slots and the label, r1 with 5 slots; 4 pods for any rack, 4 for one with the label."""
    drawing = Drawing("s/r0: a=4\ns/r1: b=5")
    shapes = [Shape((1,), drawing.named("a b")), Shape((1,), drawing.named("a"))]
    sets = (pods(4, name="any", required=NARROW), pods(4, name="labelled", shapes=[1] * 4, required=NARROW))
    return drawing.gang(*sets, shapes=shapes)


def gangs_all_over_63_racks() -> Problem:
    """g1 to g4, 1 to 4 minutes old, have a node each in every rack but r0, which w has, 5 minutes old."""
    drawing = Drawing("\n".join(f"s/{rack}: {' '.join(f'{rack}-{n}=0' for n in range(4))}" for rack in _racks()))
    for position in range(len(drawing.nodes)):
        rack, column = divmod(position, 4)
        owner, started = ("w", 5) if rack == 0 else (f"g{column + 1}", 9 - column)
        number = sum(each.key.startswith(f"{owner}-") for each in drawing.victims)
        gang = 0 if rack == 0 else column + 1
        drawing.victims.append(Victim(f"{owner}-{number}", position, 0, (1,), gang, started))
    gangs = (VictimGang("w", 4, 4), *(VictimGang(f"g{n}", 63, 63) for n in (1, 2, 3, 4)))
    return drawing.gang(pods(4), required=NARROW, victim_gangs=gangs)


def _racks() -> list[str]:
    return ["r0", *SIXTY_THREE]


def cliques_of_18(full: dict[str, int], *, kinds: dict[str, str], priorities: dict[str, int] | None = None) -> Drawing:
    """Return cliques of 18 nodes each.

    The pods that started last are scattered over the nodes.

    :param full: by clique, the number of nodes that pods occupy.
    :param kinds: by clique, the kind of these pods.
    """
    lines = [
        f"s/{clique}: "
        + " ".join(f"{clique}n{n}" + (f"+{kinds[clique]}" if n < full[clique] else "") for n in range(18))
        for clique in full
    ]
    drawing = Drawing("\n".join(lines), priorities=priorities)
    drawing.victims = [replace(each, started=place % 3) for place, each in enumerate(drawing.victims)]
    return drawing


def all_on_other_hosts(drawing: Drawing) -> tuple[Exclusion, ...]:
    """The members refuse to share a host."""
    return (Exclusion((0,), tuple(node.name for node in drawing.nodes)),)


HOSTS = Drawing("s/r1: a=3\ns/r2: b c d")
HYPERNODES = Drawing("hn1: a=1 b=2\nhn2: c=3\nhn3: d=5")
PROTECTED = Drawing("s/r1: a=0+kept*2\ns/r2: b=0+old", sizes={"old": 2})
PROTECTED_AND_FEWER = Drawing("s/r1: a=0+kept\ns/r2: b=0+old*2", sizes={"kept": 2})
BUDGET = DisruptionBudget("pdb", frozenset({0, 1}), 0)

EXAMPLES = [
    Example(
        "A",
        "Kueue, Koordinator and KAI take block A, the tighter one: 10 racks where 2 of block B do",
        Drawing("\n".join(f"A/r{n}: a{n}=2" for n in range(10)) + "\nB/r10: b0=12\nB/r11: b1=12").gang(pods(20)),
        puts("b0*12 b1*8"),
        walk=puts(" ".join(f"a{n}*2" for n in range(10))),
    ),
    Example(
        "B",
        "largest first: 19 + 1, which breaks the rack of 19 and leaves 9 of another",
        Drawing("s/r0: a=19\ns/r1: b=10\ns/r2: c=10").gang(pods(20)),
        puts("b*10 c*10"),
        walk=puts("a*19 b"),
    ),
    Example(
        "C",
        "Koordinator does not fit the last rack best: 4 + 3 of the other 4, which leaves 1 and 3 instead of 4",
        Drawing("s/r0: a=4\ns/r1: b=4\ns/r2: c=3").gang(pods(7)),
        puts("a*4 c*3"),
        walk=puts("a*4 b*3"),
    ),
    Example(
        "D",
        "Kueue gives the first set the tightest rack, the only one that the second may use: the workload is pending",
        two_sets_of_which_one_is_bound_to_r0(),
        puts("b*4", "a*4"),
    ),
    Example(
        "F",
        "pod by pod, the most allocated node first: 5 + 4, then 6, and the last 5 has no room",
        Drawing("s/b: a=10 b=10").gang(pods(4, shapes=[0, 1, 2, 0]), asks=(5, 4, 6)),
        puts("a b b a"),
    ),
    Example(
        "G",
        "KAI takes the largest of each resource, 60 cpu and 7 devices, sees room for 1 of 2, and says unschedulable",
        problem_of(("cpu", "gpu"), {"s/r/a": (64, 8)}, [(60, 1), (4, 7)], pods(2, shapes=[0, 1]), required=NARROW),
        puts("a a"),
    ),
    Example(
        "G2",
        "KAI compares sums for pods of several kinds: 4 + 4 devices for 8, then the allocation fails",
        problem_of(
            ("cpu", "gpu"),
            {"s/r/a": (8, 4), "s/r/b": (8, 4)},
            [(1, 8), (1, 0)],
            pods(2, shapes=[0, 1]),
            required=NARROW,
        ),
        None,
        walk=puts("a b"),
    ),
    Example(
        "G2-beside-another-rack",
        "the same where another rack can have them: it is not looked at, the sums of the first were enough",
        problem_of(
            ("cpu", "gpu"),
            {"s/r0/a": (8, 4), "s/r0/b": (8, 4), "s/r1/c": (8, 9)},
            [(1, 8), (1, 0)],
            pods(2, shapes=[0, 1]),
            required=NARROW,
        ),
        puts("c c"),
        walk=puts("a b"),
    ),
    Example(
        "H",
        "Kueue evicts by age and not by place: g1 to g4 go, on 252 nodes, where w alone holds a rack of 4",
        gangs_all_over_63_racks(),
        puts("r0-0 r0-1 r0-2 r0-3", evicting="w-*4"),
        walk=puts("r1-0 r1-1 r1-2 r1-3", evicting="g1-*63 g2-*63 g3-*63 g4-*63"),
    ),
    Example(
        "H2",
        "Kueue frees the devices, leaves the pod that only holds a slot, and the gang stays pending",
        replace(
            problem_of(("gpu", "pods"), {"a": (0, 0)}, [(4, 1)], pods(2)),
            victims=victim_table((Victim("low-gpu", 0, 0, (8, 1)), Victim("low-cpu", 0, 0, (0, 1)))),
        ),
        puts("a a", evicting="low-gpu low-cpu"),
        walk=puts("a a", evicting="low-gpu"),
    ),
    Example(
        "H3",
        "Kueue takes victims over all cliques, the topology then says no, and the gang of 16 nodes waits for ever",
        cliques_of_18({"c0": 18, "c1": 15, "c2": 16}, kinds={"c0": "low", "c1": "mid", "c2": "other"}).gang(
            pods(16), required=NARROW
        ),
        puts(
            " ".join(f"c1n{n}" for n in range(18) if n not in (9, 12)),
            evicting=" ".join(f"mid-{n}" for n in range(15) if n not in (9, 12)),
        ),
    ),
    Example(
        "H4",
        "KAI filters cliques by what is idle before it looks for victims: all are full, so there is no domain",
        cliques_of_18(
            {"c0": 18, "c1": 18, "c2": 18},
            kinds={"c0": "mid", "c1": "low", "c2": "mid"},
            priorities={"mid": 50, "low": 10},
        ).gang(pods(18), required=NARROW),
        puts(" ".join(f"c1n{n}" for n in range(18)), evicting="low-*18"),
    ),
    Example(
        "H5",
        "Volcano looks at eight HyperNodes and takes the first that is possible: 4 victims where the ninth costs 1",
        Drawing(
            "\n".join(f"h{n}: " + " ".join(f"h{n}n{m}+low" for m in range(4)) for n in range(8))
            + "\nh8: h8n0 h8n1 h8n2 h8n3+other\nh9: h9n0+low h9n1+low h9n2+low h9n3+low"
        ).gang(pods(4), required=WIDE),
        puts("h8n0 h8n1 h8n2 h8n3", evicting="other-0"),
        walk=puts("h0n0 h0n1 h0n2 h0n3", evicting="low-*4"),
    ),
    Example(
        "K",
        "Kueue counts 3 slots on one host, though the members refuse to share hosts: 2 of them never start",
        HOSTS.gang(pods(3), required=NARROW, exclusions=all_on_other_hosts(HOSTS)),
        puts("b c d"),
        walk=puts("a*3"),
    ),
    Example(
        "K2",
        "8 pods, at most 4 in a power domain: the rack of 8, whose power domain takes them all down",
        Drawing("p0/r0: a=8\np1/r1: b=4\np2/r2: c=4").gang(pods(8, caps=[Cap(WIDE, 4)])),
        puts("b*4 c*4"),
        walk=puts("a*8"),
    ),
    Example(
        "M",
        "Kueue, KAI and Koordinator know no disruption budgets: the newer pods of r1 go, which a budget protects",
        PROTECTED.gang(pods(2), required=NARROW, budgets=(BUDGET,)),
        puts("b b", evicting="old-0"),
        walk=puts("a a", evicting="kept-*2"),
    ),
    Example(
        "M-where-the-budget-costs-a-victim",
        "the same where the protected pod would be the only victim and the others are two",
        PROTECTED_AND_FEWER.gang(pods(2), required=NARROW, budgets=(replace(BUDGET, victims=frozenset({0})),)),
        puts("b b", evicting="old-*2"),
        walk=puts("a a", evicting="kept-0"),
    ),
    Example(
        "N",
        "Kueue knows one leader: prefill's leader and the workers fill b0 (7 slots), decode's leader ends up in b1",
        Drawing("b0/r0: a=3 b=4\nb1/r1: c=4 d=4").gang(
            pods(1, name="prefill-leader", shapes=[1]),
            pods(1, name="decode-leader", shapes=[1]),
            pods(4, name="worker"),
            asks=(1, 2),
            together=(Together((0, 1, 2), WIDE),),
        ),
        (puts("c", "d", "c*2 d*2"), puts("c", "c", "d*4")),
        walk=puts("a", "c", "b*4"),
    ),
    Example(
        "N-one-leader",
        "one set after the other: the leader takes the tightest rack, which its two workers do not fit",
        Drawing("s/r0: a\ns/r1: b0 b1 b2").gang(
            pods(1, name="leader"), pods(2, name="worker"), together=(Together((0, 1), NARROW),)
        ),
        puts("b0", "b1 b2"),
        walk=puts("a", "b0 b1"),
    ),
    Example(
        "O",
        "Volcano guides no first pod in soft mode: two pods that refuse to share a host land on 3 and 5, not 1 and 2",
        HYPERNODES.gang(pods(2), exclusions=all_on_other_hosts(HYPERNODES)),
        puts("a b"),
        walk=puts("c d"),
    ),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=[each.id for each in EXAMPLES])
def test_the_plan_is_the_best_where_greedy_loses(example: Example) -> None:
    hold(example)


@pytest.mark.parametrize(
    ("racks", "counts", "expected"),
    [
        pytest.param((7, 5), (4, 3, 5), (0, 0, 1), id="E"),
        pytest.param((8, 6), (4, 4, 6), (0, 0, 1), id="J"),
    ],
)
def test_several_gangs_are_planned_together(
    racks: tuple[int, ...], counts: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    """Greedy admits one by one. E: 4 into the rack of 5, 3 into that of 7, and 5 find no rack: 2 gangs of 3. J: the
    first 4 into the rack of 6, the best fit, and what is left, 8 and 2, cannot have both 4 and 6.
    """
    room = Drawing("\n".join(f"r{rack}: n{rack}={slots}" for rack, slots in enumerate(racks)))
    joint = in_one([room.gang(pods(count), required=WIDE) for count in counts])
    answer = solve_joint(joint, PATIENT)
    where = tuple(None if share is None else {*share.nodes[0]} for share in answer.shares)
    assert where == tuple({rack} for rack in expected)
    assert (answer.proof, faults_of(joint, answer)) == (Proof.OPTIMAL, ())


@pytest.mark.parametrize(
    ("members", "slots", "by_name", "crossings"),
    [
        pytest.param(24, 6, 6, 4, id="I"),
        pytest.param(128, 8, 29, 16, id="I-128-pods"),
        pytest.param(1024, 8, 230, 128, id="I-1024-pods"),
    ],
)
def test_ranks_are_numbers(members: int, slots: int, by_name: int, crossings: int) -> None:
    """Koordinator pours pods over racks in the order of their names, w-10 before w-2. Counted are the neighbours, in a
    ring, that are in different racks.
    """
    drawing = Drawing("\n".join(f"s/r{rack}: n{rack}={slots}" for rack in range(members // slots)))
    problem = drawing.gang(pods(members))
    plan = placed(problem)
    named = sorted(range(members), key=lambda rank: f"w-{rank}")
    greedy = [named.index(rank) // slots for rank in range(members)]
    assert _ring(greedy) == by_name
    assert _ring([*plan.nodes[0]]) == crossings
    ranks = next(goal for goal in plan.goals if goal.name == "ranks")
    assert dict(ranks.parts) == {"spine": 0, "block": crossings - 1, "node": crossings - 1}


def _ring(places: list[int | None] | list[int]) -> int:
    return sum(one != other for one, other in pairwise([*places, places[0]]))


@pytest.mark.parametrize(
    ("counts", "fits"),
    [pytest.param((2, 2), True, id="P-there-is-one"), pytest.param((2, 3), False, id="P-there-is-none")],
)
def test_a_no_is_a_proof(counts: tuple[int, int], fits: bool) -> None:  # noqa: FBT001 -- a column of the table
    """KAI's search for victims may reject a gang that has a plan.

    The budget allows the eviction of two of four running pods, for members of 4 and of 2. Only one choice works: the
    pod of 6 on each node, not the newer pod of 5. With one more member there is no plan, and the solver proves and
    explains the infeasibility.
    """
    drawing = Drawing("s/r: a=0+six+five b=0+six+five", sizes={"six": 6, "five": 5})
    drawing.victims = [replace(each, started=int(each.key.startswith("five"))) for each in drawing.victims]
    budget = DisruptionBudget("pdb", frozenset(range(4)), 2)
    sets = (pods(counts[0], name="large"), pods(counts[1], name="small", shapes=[1] * counts[1]))
    problem = drawing.gang(*sets, asks=(4, 2), budgets=(budget,), required=NARROW)
    if fits:
        hold(Example("P", "", problem, puts("a b", "a b", evicting="six-*2")))
        return
    answer = refused(problem)
    (near,) = answer.nearest
    assert (near.path, near.fits, near.needed) == (("s", "r"), 4, 5)
    assert [each.partition(", after evicting ")[0] for each in answer.would_fit_if] == [
        "1 more pod slot in s/r",
        "a minimum of 1 instead of 2 in large",
        "more evictions allowed by pdb",
    ]
    assert answer.would_fit_if[0].endswith(", after evicting at most 2 pods of lower priority")


def test_every_letter_is_there() -> None:
    others = {"E", "J", "I", "P"}
    assert {each.id[0] for each in EXAMPLES} | others == set("ABCDEFGHIJKMNOP")
    assert {each.id.split("-")[0] for each in EXAMPLES} >= {"G2", "H2", "H3", "H4", "H5", "K2"}
