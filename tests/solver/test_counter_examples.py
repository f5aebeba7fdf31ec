"""Where a greedy walk down the tree goes wrong. Each drawing stands beside what a greedy scheduler answers, in words.

First Koordinator's gang scheduling (A to L), then cases from other schedulers' issues. Names of alike nodes do not
matter to these examples; the solver takes the first ones.
"""

from drawings import Drawing, placed, pods, refused, rows, victims

from solver.problem import Budget, Cap, Exclusion, Multiple, Node, Problem, Shape, Together, Victim, VictimGang

SPINE, BLOCK, NODE = 0, 1, 2


# --- Koordinator ---------------------------------------------------------------------------------------------------


def test_a_free_nodes_come_before_victims() -> None:
    """Greedy takes the first four nodes of the cleared block: 3 victims."""
    drawing = Drawing("s/b: n0+low n1+low n2+low n3 n4 n5")
    problem = drawing.gang(pods(4), required=BLOCK)
    plan = placed(problem)
    assert rows(problem, plan) == ["n0 n3 n4 n5"]
    assert victims(problem, plan) == ["low-0"]


def test_b_the_spine_with_the_fewest_victims_is_taken_even_if_it_is_wider() -> None:
    """Greedy takes s1, the tighter spine: 4 victims."""
    drawing = Drawing("""
        s0/b: a0 a1 a2 a3+low a4+low
        s1/b: b0+low b1+low b2+low b3+low
    """)
    problem = drawing.gang(pods(4), required=SPINE)
    plan = placed(problem)
    assert rows(problem, plan) == ["a0 a1 a2 a3"]
    assert victims(problem, plan) == ["low-0"]


def test_c_the_lower_priority_goes() -> None:
    """Greedy passes the cost on with the wrong sign and evicts the higher priority in b1."""
    drawing = Drawing(
        """
        s/b0: a0+low a1+low
        s/b1: b0+mid b1+mid
        """,
        priorities={"low": 1, "mid": 500},
    )
    problem = drawing.gang(pods(2))
    plan = placed(problem)
    assert rows(problem, plan) == ["a0 a1"]
    assert victims(problem, plan) == ["low-0", "low-1"]


def test_d_only_the_victims_that_are_needed_go() -> None:
    """Greedy forgets to put victims back where the planned pods still fit: 4 victims."""
    drawing = Drawing("s/b: a=4+big+small b=4+big+small", sizes={"big": 20, "small": 8})
    problem = drawing.gang(pods(2), shapes=drawing.shapes(24))
    plan = placed(problem)
    assert rows(problem, plan) == ["a b"]
    assert victims(problem, plan) == ["big-0", "big-1"]


def test_e_pods_of_different_sizes_are_fitted_together() -> None:
    """Greedy counts slots pod by pod, in order, sees 1 + 1 and gives up."""
    drawing = Drawing("s/b: a=10 b=10")
    problem = drawing.gang(pods(4, shapes=[0, 0, 1, 1]), shapes=drawing.shapes(8, 1), required=BLOCK)
    assert rows(problem, placed(problem)) == ["a b b b"]


def test_f_what_cannot_fit_is_refused() -> None:
    """Greedy counts 3 + 2 slots for the small pods first, puts an 8 on b, and fails at the filter for ever."""
    drawing = Drawing("s/b: a=10 b=4")
    refused(drawing.gang(pods(4, shapes=[0, 0, 1, 1]), shapes=drawing.shapes(1, 8), required=BLOCK))


def test_g_the_fewest_blocks_win_over_the_tighter_spine() -> None:
    """Greedy takes s1, which has less room to spare: 3 blocks."""
    drawing = Drawing("""
        s1/b0: a0 a1
        s1/b1: a2 a3
        s1/b2: a4
        s2/b3: c0 c1 c2 c3
        s2/b4: d0 d1
    """)
    problem = drawing.gang(pods(5))
    assert rows(problem, placed(problem)) == ["c0 c1 c2 c3 d0"]


def test_h_the_remainder_goes_where_it_fits_best() -> None:
    """Greedy takes 3 and 1 of the block of two, and leaves 1 and 1."""
    drawing = Drawing("""
        s/b0: a0 a1 a2
        s/b1: b0 b1
        s/b2: c0
    """)
    problem = drawing.gang(pods(4))
    assert rows(problem, placed(problem)) == ["a0 a1 a2 c0"]


def test_i_the_minimum_starts_now() -> None:
    """Greedy asks for all 6 and fails."""
    drawing = Drawing("""
        s0/b: a0 a1 a2 a3
        s1/b: b0 b1 b2 b3
    """)
    problem = drawing.gang(pods(6, minimum=4), minimum=4, required=SPINE)
    assert rows(problem, placed(problem)) == ["a0 a1 a2 a3 - -"]


def test_j_multiples_of_several_levels_hold_together() -> None:
    """Greedy wants 9 from y, gets 8 in pairs, and ends at 10 of 12."""
    drawing = Drawing("""
        x/b0: a=4
        x/b1: b=2
        y/b2: c=6
        y/b3: d=4
    """)
    rules = [Multiple(BLOCK, 2), Multiple(SPINE, 3)]
    problem = drawing.gang(pods(12, multiples=rules))
    plan = placed(problem)
    assert sorted(rows(problem, plan)[0].split()) == ["a"] * 4 + ["b"] * 2 + ["c"] * 6


def test_k_multiples_hold_above_the_chosen_domain_too() -> None:
    """Greedy puts all four on one node and never looks at the block."""
    refused(Drawing("s/b: a=4 b=4").gang(pods(4, multiples=[Multiple(BLOCK, 8)])))


def test_l_a_replacement_goes_beside_its_sibling() -> None:
    """Greedy plans the recreated member alone, anywhere."""
    drawing = Drawing("""
        s0/b0: a0 a1
        s1/b1: b0=0 b1
    """)
    problem = drawing.gang(pods(2, held={0: 2}), required=SPINE)
    assert rows(problem, placed(problem)) == ["b0 b1"]


# --- other schedulers ----------------------------------------------------------------------------------------------


def test_the_tightest_block_is_not_the_most_compact() -> None:
    """Greedy (Kueue, Koordinator, KAI) takes A, 20 of 20 free, in 10 racks."""
    small = "\n".join(f"A/a{rack}: a{rack}-0=2" for rack in range(10))
    drawing = Drawing(f"{small}\nB/b0: b0-0=12\nB/b1: b1-0=12")
    problem = drawing.gang(pods(20))
    row = rows(problem, placed(problem))[0].split()
    assert sorted(set(row)) == ["b0-0", "b1-0"]


def test_the_largest_rack_is_not_broken_for_nothing() -> None:
    """Greedy (Kueue's largest first) takes 19 + 1."""
    drawing = Drawing("s/b: r0=19 r1=10 r2=10")
    problem = drawing.gang(pods(20))
    assert rows(problem, placed(problem)) == [" ".join(["r1"] * 10 + ["r2"] * 10)]


def test_the_last_domain_fits_best() -> None:
    """Greedy (Koordinator) takes 4 + 3 of the other 4."""
    drawing = Drawing("s/b: r0=4 r1=4 r2=3")
    problem = drawing.gang(pods(7))
    assert rows(problem, placed(problem)) == ["r0 r0 r0 r0 r2 r2 r2"]


def test_sets_are_placed_together_not_one_after_the_other() -> None:
    """Greedy (Kueue) gives the first set the tightest rack, the only one that the second could use."""
    drawing = Drawing("s/r0: a=4\ns/r1: b=5")
    shapes = [Shape((1,), drawing.named("a b")), Shape((1,), drawing.named("a"))]
    sets = (pods(4, name="any", required=BLOCK), pods(4, name="labelled", shapes=[1] * 4, required=BLOCK))
    problem = drawing.gang(*sets, shapes=shapes)
    assert rows(problem, placed(problem)) == ["b b b b", "a a a a"]


def test_members_of_different_sizes_need_no_lucky_order() -> None:
    """Greedy (pod by pod, most allocated first) puts 5 + 4 together, then 6, and the last 5 fails."""
    drawing = Drawing("s/b: a=10 b=10")
    problem = drawing.gang(pods(4, shapes=[0, 1, 2, 0]), shapes=drawing.shapes(5, 4, 6))
    assert rows(problem, placed(problem)) == ["a b b a"]


def test_members_are_not_judged_by_their_largest_parts() -> None:
    """Greedy (KAI) takes the maximum of each resource, (60, 7), finds room for one, and gives up."""
    node = Node("a", ("s", "r"), (64, 8), (0, 0))
    problem = Problem(
        levels=("spine", "rack", "node"),
        resources=("cpu", "gpu"),
        nodes=(node,),
        shapes=(Shape((60, 1), frozenset({0})), Shape((4, 7), frozenset({0}))),
        sets=(pods(2, shapes=[0, 1]),),
        minimum=2,
        required=BLOCK,
    )
    assert rows(problem, placed(problem)) == ["a a"]


def test_sums_of_a_rack_are_not_room_on_a_node() -> None:
    """Greedy (KAI) compares sums, 4 + 4 free for 8, chooses r0 and fails there."""
    drawing = Drawing("s/r0: a=4 b=4\ns/r1: c=9")
    problem = drawing.gang(pods(2, shapes=[0, 1]), shapes=drawing.shapes(8, 1), required=BLOCK)
    assert rows(problem, placed(problem)) == ["c c"]


def test_the_gang_that_frees_a_rack_alone_goes() -> None:
    """Greedy (Kueue: by priority, then the latest) evicts g1 to g4, all their members everywhere, before w."""
    racks = "\n".join(f"s/r{rack}: " + " ".join(f"r{rack}-{n}=0" for n in range(4)) for rack in range(8))
    drawing = Drawing(racks)
    gangs = [VictimGang("w", 4, 4), *(VictimGang(f"g{n}", 7, 7) for n in range(4))]
    running = []
    for position in range(len(drawing.nodes)):
        rack, place = divmod(position, 4)
        gang = 0 if rack == 0 else place + 1
        running.append(Victim(f"p-{position}", position, 0, (1,), gang, 1 if rack == 0 else 5))
    drawing.victims = running
    problem = drawing.gang(pods(4), required=BLOCK, victim_gangs=tuple(gangs))
    plan = placed(problem)
    assert rows(problem, plan) == ["r0-0 r0-1 r0-2 r0-3"]
    assert victims(problem, plan) == ["p-0", "p-1", "p-2", "p-3"]


def test_all_that_stand_in_the_way_go() -> None:
    """Greedy (Kueue) frees the devices, leaves the pod that only holds a slot, and waits for ever."""
    everywhere = frozenset({0})
    low = [Victim("low-gpu", 0, 0, (8, 1)), Victim("low-cpu", 0, 0, (0, 1))]
    problem = Problem(
        levels=("node",),
        resources=("gpu", "pods"),
        nodes=(Node("a", (), (0, 0), (0, 0)),),
        shapes=(Shape((4, 1), everywhere),),
        sets=(pods(2),),
        minimum=2,
        victims=tuple(low),
    )
    plan = placed(problem)
    assert victims(problem, plan) == ["low-gpu", "low-cpu"]


def test_victims_are_chosen_inside_one_domain() -> None:
    """Greedy (Kueue) takes the latest pods of all cliques, finds that no clique fits, and does nothing."""
    drawing = Drawing("s/c0: a0+low a1+low\ns/c1: b0+low b1+low\ns/c2: c0+low c1+low")
    latest = (9, 1, 9, 1, 3, 4)
    drawing.victims = [
        Victim(each.key, each.node, 0, (1,), None, started)
        for each, started in zip(drawing.victims, latest, strict=True)
    ]
    problem = drawing.gang(pods(2), required=BLOCK)
    plan = placed(problem)
    assert rows(problem, plan) == ["c0 c1"]


def test_the_cheapest_domain_is_found_however_many_there_are() -> None:
    """Greedy (Volcano) looks at eight domains and takes the first that is possible: 4 victims."""
    full = [f"h{n}: " + " ".join(f"h{n}-{m}+low" for m in range(4)) for n in range(8)]
    drawing = Drawing("\n".join([*full, "h8: h8-0 h8-1 h8-2 h8-3+low", "h9: h9-0+low h9-1+low h9-2+low h9-3+low"]))
    problem = drawing.gang(pods(4), required=0)
    plan = placed(problem)
    assert rows(problem, plan) == ["h8-0 h8-1 h8-2 h8-3"]
    assert len(plan.victims) == 1


def test_ranks_are_numbers() -> None:
    """Greedy sorts w-10 before w-2 and crosses racks more often than needed."""
    drawing = Drawing("\n".join(f"s/r{rack}: n{rack}=6" for rack in range(4)))
    problem = drawing.gang(pods(24))
    plan = placed(problem)
    assert rows(problem, plan) == [" ".join(f"n{rack}" for rack in range(4) for _ in range(6))]
    ranks = next(goal for goal in plan.goals if goal.name == "ranks")
    assert dict(ranks.parts) == {"spine": 0, "block": 3, "node": 3}


def test_room_counts_only_where_members_bear_each_other() -> None:
    """Greedy (Kueue) counts three slots on one host, though the members refuse to share hosts."""
    drawing = Drawing("s/r1: a=3\ns/r2: b c d")
    apart = Exclusion((0,), tuple(node.name for node in drawing.nodes))
    problem = drawing.gang(pods(3), required=BLOCK, exclusions=(apart,))
    assert rows(problem, placed(problem)) == ["b c d"]


def test_a_cap_per_domain_spreads_what_would_fit_in_one() -> None:
    """Greedy takes the domain of 8."""
    drawing = Drawing("p0/r0: a=8\np1/r1: b=4\np2/r2: c=4")
    problem = drawing.gang(pods(8, caps=[Cap(SPINE, 4)]))
    assert rows(problem, placed(problem)) == ["b b b b c c c c"]


def test_a_protected_pod_is_no_victim() -> None:
    """Greedy (Kueue, KAI, Koordinator know no disruption budgets) takes the newer pods of r1."""
    drawing = Drawing("s/r1: a0+kept a1+kept\ns/r2: b0 b1+low")
    budget = Budget("pdb", frozenset({0, 1}), 0)
    problem = drawing.gang(pods(2), required=BLOCK, budgets=(budget,))
    plan = placed(problem)
    assert victims(problem, plan) == ["low-0"]


def test_a_leader_and_its_workers_share_a_rack() -> None:
    """Greedy gives the leader the tightest rack, which its workers do not fit."""
    drawing = Drawing("s/r0: a\ns/r1: b0 b1 b2")
    problem = drawing.gang(pods(1, name="leader"), pods(2, name="worker"), together=(Together((0, 1), BLOCK),))
    assert rows(problem, placed(problem)) == ["b0", "b1 b2"]


def test_a_gang_that_refuses_to_share_takes_the_domain_that_wastes_least() -> None:
    """Greedy (Volcano) places the first pod without guidance: on 3 and 5, in two domains."""
    drawing = Drawing("h1: a=1 b=2\nh2: c=3\nh3: d=5")
    apart = Exclusion((0,), tuple(node.name for node in drawing.nodes))
    problem = drawing.gang(pods(2), exclusions=(apart,))
    assert rows(problem, placed(problem)) == ["a b"]
