"""An instance whose members are all alike, solved by dynamic programming over its tree, with a proof of every goal."""

from operator import itemgetter

from solver.bounds.eviction_closure import cleared
from solver.bounds.member_classes import MemberClass
from solver.capacity import needed_members
from solver.cp_sat.lexicographic import Found
from solver.cp_sat.solve import Solved
from solver.instance import Instance
from solver.objective import Nodes, comparison_key, goals_of
from solver.tree import ROOT
from solver.tree_dp.domain_bounds import Score, candidates
from solver.tree_dp.min_plus import INFEASIBLE_COST
from solver.tree_dp.reconstruct import first_node, seated
from solver.tree_dp.single_class_tables import Domain, DomainTables, countable, domain_tables_of, ways_to_count

_MANY = 512
"""From so many members on, the tables of many domains take so long that what is compared first is looked at alone."""


def solve_tree_dp(instance: Instance) -> Solved | Found | None:
    """The best plan, or the proof that there is none; None where counting does not tell the whole truth."""
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
        return Found.INFEASIBLE
    plans = plans or [_rows(instance, ways[0][0], [])]
    best = plans[0] if len(plans) == 1 else min(plans, key=lambda nodes: _key(instance, nodes))
    return Solved(best, (), (), proven=True)


def _best_plan(tables: DomainTables) -> Nodes | None:
    """The best plan by these tables that places anybody, and no fewer than must be; None where there is none."""
    members, needed = len(tables.kind.ranks), needed_members(tables.instance.problem)
    domain = _best_domain(tables, members)
    if domain is None:
        members = _members(tables)
        domain = _best_domain(tables, members) if members >= max(1, needed) else None
    return None if domain is None else _rows(tables.instance, tables.kind, seated(tables, domain, members))


def _key(instance: Instance, nodes: Nodes) -> tuple[tuple[int, ...], ...]:
    """The goals of a plan in their order, each with its parts, smaller being better, and its names."""
    names = tuple(instance.name_rank[node] for row in nodes for node in row if node is not None)
    return (*(comparison_key(goal) for goal in goals_of(instance, nodes, ())), names)


def _members(tables: DomainTables) -> int:
    """As many members as one allowed domain can hold; 0 where that is none. What fits into a narrower domain fits into
    the allowed one around it.
    """
    return max(_most(tables, tables.rules.required).values(), default=0)


def no_room(instance: Instance) -> bool:
    """Whether counting proves that the minimum has no place, even if everybody goes who may. False: it may have one.

    Expects that there is room enough for it, rules about numbers apart.
    """
    room = cleared(instance)
    found = countable(room)
    if found is None or not found[1].numbers:
        return False
    tables = domain_tables_of(room, *found)
    return tables is not None and _members(tables) < needed_members(instance.problem)


def has_room(instance: Instance) -> bool | None:
    """Whether the minimum has a place without evictions; None where counting does not tell."""
    answers = [
        None if tables is None else _members(tables) >= needed_members(instance.problem)
        for tables in (domain_tables_of(instance, *way) for way in ways_to_count(instance) or ())
    ]
    return None if not answers or None in answers else any(answers)


def members_by_domain(instance: Instance, level: int) -> dict[int, int] | None:
    """How many members each domain of `level` (or ROOT) can hold without evictions, where counting can tell. Domains
    without room are left out.
    """
    found = countable(instance)
    tables = None if found is None else domain_tables_of(instance, *found)
    if tables is None:
        return None
    return _most(tables, level)


def _most(tables: DomainTables, level: int) -> dict[int, int]:
    """How many members each domain of `level` (or ROOT) can hold within the rules of those around it; domains without
    room are left out.
    """
    if not tables.rules.numbers:
        room = tables.instance.tree.summed(level, tables.instance.capacity[tables.kind.shape])
        return {domain: min(count, tables.members) for domain, count in enumerate(room.tolist()) if count}
    return {domain.number: _most_in(tables, domain) for domain in tables.domains(level)}


def _most_in(tables: DomainTables, domain: Domain) -> int:
    counts = range(tables.table(domain).shape[1] - 1, -1, -1)
    return next((count for count in counts if holds(tables, domain, count)), 0)


def holds(tables: DomainTables, domain: Domain, count: int) -> bool:
    """Whether so many members fit into a domain and into the rules of those around it."""
    table, rules = tables.table(domain), tables.rules
    if count >= table.shape[1] or table[0, count] >= INFEASIBLE_COST:
        return False
    if any(rules.least) and not tables.encloses(domain.level, count)[domain.number]:
        return False
    around = tables.instance.parents(domain.level, tables.instance.tree.nodes(domain.level, domain.number)[0])
    return all(
        count <= rules.caps[level].get(number, count) and all(count % of == 0 for of in rules.multiple[level])
        for level, number in around
        if level > ROOT
    )


def _best_domain(tables: DomainTables, members: int) -> Domain | None:
    """The narrowest domain that holds everybody at best; between equals the one whose plan begins with the first name.
    None where there is none.
    """
    for level in range(tables.instance.tree.depth - 1, tables.rules.required - 1, -1):
        best = _best_of_level(tables, level, members)
        if best:
            return _first_by_name(tables, best, members)
    return None


def _best_of_level(tables: DomainTables, level: int, members: int) -> list[Domain]:
    """The equally good domains of a level, looked at in order of what they cost at best until that is too much.

    The rules around a domain allow all candidates: what is known of one counts for those that are alike inside.
    """
    best: list[Domain] = []
    best_score: Score | None = None
    known: dict[tuple[int, Score], Score | None] = {}
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
    tables: DomainTables, level: int, possible: list[tuple[int, Score]], members: int
) -> list[tuple[int, Score]]:
    """Those candidates whose plans are as good as any in what is compared first; their bounds then tell it exactly."""
    heads, words = tables.primary, tables.layout.primary
    kept: list[tuple[int, Score]] = []
    best: Score | None = None
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
    """Domains of one level share no node, so the first member decides."""
    chosen, first = domains[0], None
    for domain in sorted(domains, key=lambda each: each.first_name):
        if first is not None and domain.first_name > first:
            break
        name = first_node(tables, domain, members)
        if first is None or name < first:
            chosen, first = domain, name
    return chosen


def _score(tables: DomainTables, domain: Domain, members: int) -> Score:
    """The whole vector of goals: what adds up inside, with the room of the domain and of those around it between."""
    instance, primary = tables.instance, tables.layout.primary
    words = tables.table(domain)[:, members].tolist()
    node = instance.tree.nodes(domain.level, domain.number)[0]
    outward = range(domain.level, ROOT - 1, -1)
    room = [instance.domain_potential(level, instance.tree.domain(level, node)) for level in outward]
    return (*words[:primary], *room, *words[primary:])


def _rows(instance: Instance, kind: MemberClass, nodes: list[int]) -> Nodes:
    rows: list[tuple[int | None, ...]] = []
    for position, pod_set in enumerate(instance.problem.sets):
        nodes_of_set = nodes if position == kind.pod_set else []
        rows.append((*nodes_of_set, *[None] * (len(pod_set.members) - len(nodes_of_set))))
    return tuple(rows)
