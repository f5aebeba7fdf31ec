"""The best plan of a gang whose members are all alike, by dynamic programming over the tree, with a proof of every
goal.
"""

from operator import itemgetter

from solver.bounds.member_classes import MemberClass
from solver.capacity import needed_members
from solver.cp_sat.lexicographic import SolveStatus
from solver.cp_sat.solve import Solved
from solver.instance import Instance
from solver.objective import Nodes, comparison_key, goals_of
from solver.tree import ROOT
from solver.tree_dp.domain_bounds import DomainCost, candidates
from solver.tree_dp.reconstruct import first_node, seated
from solver.tree_dp.single_class_counts import holds, members_of
from solver.tree_dp.single_class_tables import Domain, DomainTables, domain_tables_of, ways_to_count

_MANY = 512
"""From this number of members on, full tables are slow. So tables with only the primary words (the goals before waste)
are compared first.
"""


def solve_tree_dp(instance: Instance) -> Solved | SolveStatus | None:
    """Return the best plan without evictions, or INFEASIBLE as a proof that there is none.

    None if counting members does not express all constraints of the gang, or if amounts are too large.
    """
    ways = ways_to_count(instance)
    if ways is None:
        return None
    plans: list[Nodes] = []
    for way in ways:
        tables = domain_tables_of(instance, *way)
        if tables is None:
            return None
        nodes = _best_plan(tables)
        if nodes is not None:
            plans.append(nodes)
    if not plans and needed_members(instance.problem) > 0:
        return SolveStatus.INFEASIBLE
    plans = plans or [_rows(instance, ways[0][0], [])]
    best = plans[0] if len(plans) == 1 else min(plans, key=lambda nodes: _key(instance, nodes))
    return Solved(best, (), (), proven=True)


def _best_plan(tables: DomainTables) -> Nodes | None:
    """Return the best plan by these tables: with all members or, if not all fit, with as many as fit. None if the
    minimum does not fit, or if no member fits.
    """
    members, needed = len(tables.kind.ranks), needed_members(tables.instance.problem)
    domain = _best_domain(tables, members)
    if domain is None:
        members = members_of(tables)
        domain = _best_domain(tables, members) if members >= max(1, needed) else None
    return None if domain is None else _rows(tables.instance, tables.kind, seated(tables, domain, members))


def _key(instance: Instance, nodes: Nodes) -> tuple[tuple[int, ...], ...]:
    """Return a plan's comparison key: the goals in their order, each with its parts, then the node names. Smaller is
    better.
    """
    names = tuple(instance.name_rank[node] for row in nodes for node in row if node is not None)
    return (*(comparison_key(goal) for goal in goals_of(instance, nodes, ())), names)


def _best_domain(tables: DomainTables, members: int) -> Domain | None:
    """Return the narrowest domain that holds this many members. Of several domains of its level, return the domain with
    the best plan. None if no domain holds the members.

    Among equally good domains, the plan with the first node name decides.
    """
    for level in range(tables.instance.tree.depth - 1, tables.rules.required - 1, -1):
        best = _best_of_level(tables, level, members)
        if best:
            return _first_by_name(tables, best, members)
    return None


def _best_of_level(tables: DomainTables, level: int, members: int) -> list[Domain]:
    """Return the domains of a level whose plans for this many members are the best and equally good; empty if no domain
    holds the members.

    Domains are solved in order of their lower bounds, until a bound exceeds the best score. If a domain has the same
    key and the same bound as a solved domain, it gets the solved domain's score.
    """
    best: list[Domain] = []
    best_score: DomainCost | None = None
    known: dict[tuple[int, DomainCost], DomainCost | None] = {}
    possible = candidates(tables, level, members)
    if members >= _MANY:
        possible = _best_heads(tables, level, possible, members)
    for number, bound in possible:
        if best_score is not None and bound > best_score[: len(bound)]:
            break
        domain = tables.domain(level, number)
        if domain is None:
            continue
        if (domain.key, bound) not in known:
            known[domain.key, bound] = _score(tables, domain, members) if holds(tables, domain, members) else None
        score = known[domain.key, bound]
        if score is not None and (best_score is None or score < best_score):
            best, best_score = [domain], score
        elif score is not None and score == best_score:
            best.append(domain)
    return best


def _best_heads(
    tables: DomainTables, level: int, possible: list[tuple[int, DomainCost]], members: int
) -> list[tuple[int, DomainCost]]:
    """Return the candidates whose plans are best in the primary words (the goals before waste), sorted by bound.

    `possible`: pairs of a domain and its bound. In the returned pairs, each bound begins with the exact primary words.
    """
    heads, words = tables.primary, tables.layout.primary
    kept: list[tuple[int, DomainCost]] = []
    best: DomainCost | None = None
    for number, bound in possible:
        if best is not None and bound[:words] > best:
            break
        domain = heads.domain(level, number)
        if domain is None or not holds(heads, domain, members):
            continue
        primary = tuple(heads.table(domain)[:, members].tolist())
        if best is None or primary < best:
            best, kept = primary, []
        if primary == best:
            kept.append((number, (*primary, *bound[words:])))
    return sorted(kept, key=itemgetter(1))


def _first_by_name(tables: DomainTables, domains: list[Domain], members: int) -> Domain:
    """Return the domain whose plan begins with the first node name. `domains`: of one level, so no two share a node."""
    chosen, first = domains[0], None
    for domain in sorted(domains, key=lambda each: each.first_name):
        if first is not None and domain.first_name > first:
            break
        name = first_node(tables, domain, members)
        if first is None or name < first:
            chosen, first = domain, name
    return chosen


def _score(tables: DomainTables, domain: Domain, members: int) -> DomainCost:
    """Return the values by which the best plan with this many members in a domain is compared, in the order of the
    goals.

    The domain's table has all values except the parts (a) and (b) of waste. The potential of the domain and of its
    parents decides these two parts. It is inserted between the primary and the secondary words of the table.
    """
    instance, primary = tables.instance, tables.layout.primary
    words = tables.table(domain)[:, members].tolist()
    node = instance.tree.nodes(domain.level, domain.number)[0]
    outward = range(domain.level, ROOT - 1, -1)
    room = [instance.domain_potential(level, instance.tree.domain(level, node)) for level in outward]
    return (*words[:primary], *room, *words[primary:])


def _rows(instance: Instance, kind: MemberClass, nodes: list[int]) -> Nodes:
    """Return the plan's nodes by set and rank. `nodes`: the nodes of the class's members by rank. Members of other
    sets, and members beyond the length of `nodes`, are not placed.
    """
    rows: list[tuple[int | None, ...]] = []
    for position, pod_set in enumerate(instance.problem.sets):
        nodes_of_set = nodes if position == kind.pod_set else []
        rows.append((*nodes_of_set, *[None] * (len(pod_set.members) - len(nodes_of_set))))
    return tuple(rows)
