"""How many members a gang of one member class can place, by counting: no search, and CP-SAT is not loaded."""

from solver.bounds.eviction_closure import cleared
from solver.capacity import needed_members
from solver.instance import Instance
from solver.tree import ROOT
from solver.tree_dp.min_plus import INFEASIBLE_COST
from solver.tree_dp.single_class_tables import Domain, DomainTables, countable, domain_tables_of, ways_to_count


def no_room(instance: Instance) -> bool:
    """Return whether counting proves that the minimum does not fit, even if all useful victims are gone. False: the
    minimum may fit.

    A gang without constraints on counts (`CountingRules.numbers`) is not checked here, because
    `bounds.domain_cover.too_small` checks it.
    """
    room = cleared(instance)
    found = countable(room)
    if found is None or not found[1].numbers:
        return False
    tables = domain_tables_of(room, *found)
    return tables is not None and members_of(tables) < needed_members(instance.problem)


def has_room(instance: Instance) -> bool | None:
    """Return whether the minimum fits without evictions. None if counting members does not express all constraints of
    the gang.
    """
    answers = [
        None if tables is None else members_of(tables) >= needed_members(instance.problem)
        for tables in (domain_tables_of(instance, *way) for way in ways_to_count(instance) or ())
    ]
    return None if not answers or None in answers else any(answers)


def members_by_domain(instance: Instance, level: int) -> dict[int, int] | None:
    """Return how many members each domain of `level` (or ROOT, the whole cluster) can hold without evictions. Domains
    without capacity have no entry.

    None if counting members does not express all constraints of the gang.
    """
    found = countable(instance)
    tables = None if found is None else domain_tables_of(instance, *found)
    if tables is None:
        return None
    return _most(tables, level)


def members_of(tables: DomainTables) -> int:
    """Return the most members that one domain of the required level can hold; 0 if no domain can hold any.

    Members that fit a narrower domain also fit the domain of the required level around it.
    """
    return max(_most(tables, tables.rules.required).values(), default=0)


def _most(tables: DomainTables, level: int) -> dict[int, int]:
    """Return how many members each domain of `level` (or ROOT, the whole cluster) can hold, under the constraints on
    the domain itself and on the domains around it.

    Domains without capacity have no entry.
    """
    if not tables.rules.numbers:
        room = tables.instance.tree.summed(level, tables.instance.capacity[tables.kind.shape])
        return {domain: min(count, tables.members) for domain, count in enumerate(room.tolist()) if count}
    return {domain.number: _most_in(tables, domain) for domain in tables.domains(level)}


def _most_in(tables: DomainTables, domain: Domain) -> int:
    """Return the most members that a domain can hold; 0 if it can hold none."""
    counts = range(tables.table(domain).shape[1] - 1, -1, -1)
    return next((count for count in counts if holds(tables, domain, count)), 0)


def holds(tables: DomainTables, domain: Domain, count: int) -> bool:
    """Return whether `count` members can be in a domain and no member elsewhere, under all constraints on counts."""
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
