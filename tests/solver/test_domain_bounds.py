"""Lower bounds on a gang's goals by domain: they list every domain that can hold the gang, and no bound is too high."""

from random import Random

import pytest

from solver.instance import instance_of
from solver.nodes import Node, nodes_of
from solver.problem import Cap, Exclusion, Member, Multiple, PodSet, Problem, Shape
from solver.tree import ROOT
from solver.tree_dp.domain_bounds import candidates
from solver.tree_dp.single_class_counts import holds
from solver.tree_dp.single_class_tables import countable, domain_tables_of

LEVELS = ("spine", "block", "rack", "node")


def gang(draw: Random) -> Problem:
    """Some members among up to 60 nodes, which lie in few racks of few blocks; half of them under rules."""
    paths = [(f"s{draw.randrange(2)}", f"b{draw.randrange(2)}", f"r{draw.randrange(4)}") for _ in range(60)]
    nodes = [Node(f"n{at}", path, (draw.randrange(5),), (0,)) for at, path in enumerate(paths[: draw.randint(8, 60)])]
    caps: tuple[Cap, ...] = ()
    multiples: tuple[Multiple, ...] = ()
    exclusions: tuple[Exclusion, ...] = ()
    if draw.random() < 0.5:
        caps = (Cap(draw.randrange(4), draw.randint(2, 12)),)
        multiples = (Multiple(draw.randrange(4), 2),)
        group = tuple(node.path[0] if node.path[0] == "s0" else None for node in nodes)
        exclusions = (Exclusion((0,), group, draw.randint(2, 12)),)
    count = 2 * draw.randint(1, 16)
    members = PodSet("main", tuple(Member(f"m{rank}", 0) for rank in range(count)), 0, None, (), multiples, caps)
    shape = Shape((1,), frozenset(range(len(nodes))), {}, {0: 5, 3: 2})
    return Problem(LEVELS, ("pods",), nodes_of(nodes), (shape,), (members,), 0, exclusions=exclusions)


@pytest.mark.parametrize("seed", range(60))
def test_no_bound_is_more_than_what_a_plan_there_comes_to(seed: int) -> None:
    draw = Random(seed)  # noqa: S311 - repeatable, not secret
    instance = instance_of(gang(draw), evicting=False)
    found = countable(instance)
    assert found is not None
    tables = domain_tables_of(instance, *found)
    assert tables is not None
    words = tables.layout.primary
    for level in range(ROOT, len(LEVELS)):
        for members in (draw.randint(1, tables.members), tables.members):
            bounds = dict(candidates(tables, level, members))
            for domain in tables.domains(level):
                if holds(tables, domain, members):
                    assert bounds[domain.number][:words] <= tuple(tables.table(domain)[:, members].tolist()[:words])
