"""Solving a case whose members are all alike by counting, with a proof of every goal."""

from operator import itemgetter

from solver.bounds import needed_members
from solver.candidates import Score, candidates
from solver.case import Case
from solver.clearing import cleared
from solver.counting import NEVER
from solver.modelling import Solved
from solver.scoring import Nodes
from solver.search import Found
from solver.seating import first_node, seated
from solver.tables import Book, Domain, book_of, countable
from solver.tree import ROOT

_MANY = 512
"""From so many members on, the tables of many domains take so long that what is compared first is looked at alone."""


def solve_by_counting(case: Case) -> Solved | Found | None:
    """The best plan, or the proof that there is none; None where counting does not tell the whole truth."""
    found = countable(case)
    if found is None:
        return None
    book = book_of(case, *found)
    if book is None:
        return None
    members, needed = len(book.kind.ranks), needed_members(case.problem)
    domain = _best_domain(book, members)
    if domain is None:
        members = _members(book)
        domain = _best_domain(book, members) if members >= max(1, needed) else None
    if domain is None:
        return Found.NONE if needed > 0 else Solved(_rows(book, []), (), (), proven=True)
    return Solved(_rows(book, seated(book, domain, members)), (), (), proven=True)


def _members(book: Book) -> int:
    """As many members as one allowed domain can hold; 0 where that is none. What fits into a narrower domain fits into
    the allowed one around it.
    """
    return max(_most(book, book.rules.required).values(), default=0)


def no_room(case: Case) -> bool:
    """Whether counting proves that the minimum has no place, even if everybody goes who may. False: it may have one.

    Expects that there is room enough for it, rules about numbers apart.
    """
    room = cleared(case)
    found = countable(room)
    if found is None or not found[1].numbers:
        return False
    book = book_of(room, *found)
    return book is not None and _members(book) < needed_members(case.problem)


def has_room(case: Case) -> bool | None:
    """Whether the minimum has a place without evictions; None where counting does not tell."""
    found = countable(case)
    book = None if found is None else book_of(case, *found)
    return None if book is None else _members(book) >= needed_members(case.problem)


def members_by_domain(case: Case, level: int) -> dict[int, int] | None:
    """How many members each domain of `level` (or ROOT) can hold without evictions, where counting can tell. Domains
    without room are left out.
    """
    found = countable(case)
    book = None if found is None else book_of(case, *found)
    if book is None:
        return None
    return _most(book, level)


def _most(book: Book, level: int) -> dict[int, int]:
    """How many members each domain of `level` (or ROOT) can hold within the rules of those around it; domains without
    room are left out.
    """
    if not book.rules.numbers:
        room = book.case.tree.summed(level, book.case.capacity[book.kind.shape])
        return {domain: min(count, book.members) for domain, count in enumerate(room.tolist()) if count}
    return {domain.number: _most_in(book, domain) for domain in book.domains(level)}


def _most_in(book: Book, domain: Domain) -> int:
    return next(count for count in range(book.table(domain).shape[1] - 1, -1, -1) if holds(book, domain, count))


def holds(book: Book, domain: Domain, count: int) -> bool:
    """Whether so many members fit into a domain and into the rules of those around it."""
    table, rules = book.table(domain), book.rules
    if count >= table.shape[1] or table[0, count] >= NEVER:
        return False
    around = book.case.parents(domain.level, book.case.tree.nodes(domain.level, domain.number)[0])
    return all(
        count <= rules.caps[level].get(number, count) and all(count % of == 0 for of in rules.multiple[level])
        for level, number in around
        if level > ROOT
    )


def _best_domain(book: Book, members: int) -> Domain | None:
    """The narrowest domain that holds everybody at best; between equals the one whose plan begins with the first name.
    None where there is none.
    """
    for level in range(book.case.tree.depth - 1, book.rules.required - 1, -1):
        best = _best_of_level(book, level, members)
        if best:
            return _first_by_name(book, best, members)
    return None


def _best_of_level(book: Book, level: int, members: int) -> list[Domain]:
    """The equally good domains of a level, looked at in order of what they cost at best until that is too much.

    The rules around a domain allow all candidates: what is known of one counts for those that are alike inside.
    """
    best: list[Domain] = []
    best_score: Score | None = None
    known: dict[tuple[int, Score], Score | None] = {}
    possible = candidates(book, level, members)
    if members >= _MANY:
        possible = _best_heads(book, level, possible, members)
    for number, bound in possible:
        if best_score is not None and bound > best_score[: len(bound)]:
            break
        domain = book.domain(level, number)
        if domain is None:
            continue
        if (domain.key, bound) not in known:
            known[domain.key, bound] = _score(book, domain, members) if holds(book, domain, members) else None
        score = known[domain.key, bound]
        if score is not None and (best_score is None or score < best_score):
            best, best_score = [domain], score
        elif score is not None and score == best_score:
            best.append(domain)
    return best


def _best_heads(book: Book, level: int, possible: list[tuple[int, Score]], members: int) -> list[tuple[int, Score]]:
    """Those candidates whose plans are as good as any in what is compared first; their bounds then tell it exactly."""
    heads, words = book.heads, book.layout.head
    kept: list[tuple[int, Score]] = []
    best: Score | None = None
    for number, bound in possible:
        if best is not None and bound[:words] > best:
            break
        domain = heads.domain(level, number)
        if domain is None or not holds(heads, domain, members):
            continue
        head = tuple(heads.table(domain)[:, members].tolist())
        if best is None or head < best:
            best, kept = head, []
        if head == best:
            kept.append((number, (*head, *bound[words:])))
    return sorted(kept, key=itemgetter(1))


def _first_by_name(book: Book, domains: list[Domain], members: int) -> Domain:
    """Domains of one level share no node, so the first member decides."""
    chosen, first = domains[0], None
    for domain in sorted(domains, key=lambda each: each.first_name):
        if first is not None and domain.first_name > first:
            break
        name = first_node(book, domain, members)
        if first is None or name < first:
            chosen, first = domain, name
    return chosen


def _score(book: Book, domain: Domain, members: int) -> Score:
    """The whole vector of goals: what adds up inside, with the room of the domain and of those around it between."""
    case, head = book.case, book.layout.head
    words = book.table(domain)[:, members].tolist()
    node = case.tree.nodes(domain.level, domain.number)[0]
    outward = range(domain.level, ROOT - 1, -1)
    room = [case.domain_potential(level, case.tree.domain(level, node)) for level in outward]
    return (*words[:head], *room, *words[head:])


def _rows(book: Book, nodes: list[int]) -> Nodes:
    rows: list[tuple[int | None, ...]] = []
    for position, pod_set in enumerate(book.case.problem.sets):
        mine = nodes if position == book.kind.pod_set else []
        rows.append((*mine, *[None] * (len(pod_set.members) - len(mine))))
    return tuple(rows)
