"""The domains of levels below the node that a plan uses: as levels of the SolveReport, and as goals with their bounds.

The domains are counted from the devices that the plan gives, not from the search that chose them.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cluster.devices.inventory import Flags
from gangs.model import Gang, Member
from planning.decision import Assignment, DomainUse, LevelUse
from planning.devices.allotment import devices_of_pods, fewest_on, held_by_gangs
from planning.devices.columns import DeviceColumns
from planning.devices.demands import Asked, ClaimDemand
from planning.devices.domains import NO_VALUE, DomainLevel, required_levels
from planning.devices.fewest_domains import Counts, counted_contents, least_devices, shares
from planning.devices.node_search import alike_contents
from planning.framing.gang_problem import Framing
from solver.plan import Goal, Plan
from solver.verify.rules import verify

MOST_CONTENTS = 50
"""The most different sets of devices of nodes for which the fewest domains are searched: some milliseconds for each."""
MOST_MOVES = 50
"""The most nodes on which the gang is tried. Each one takes a verification of the whole plan."""


@dataclass(frozen=True, slots=True)
class DomainsUsed:
    """The domains of levels below the node that a plan uses.

    `levels`: the used domains, one entry for each level, the widest level first. `goals`: for each level, the number of
    used domains as a goal with its bound. `text`: the used domains in words, for the message. `not_proven`: a phrase
    for messages about each level of which fewer domains may suffice. The phrase names the level.
    """

    levels: tuple[LevelUse, ...] = ()
    goals: tuple[Goal, ...] = ()
    text: str = ""
    not_proven: tuple[str, ...] = ()


def domains_used(
    gang: Gang, framing: Framing, plan: Plan, assignments: Sequence[Assignment], fewest: Counts
) -> DomainsUsed:
    """Return the domains of the levels below the node that the members' devices are in.

    `fewest`: the fewest domains of any plan that is as good as `plan` in all goals of the solver; empty if unknown.
    """
    columns = framing.devices
    if not columns.below:
        return DomainsUsed()
    levels, goals, texts, not_proven = [], [], [], []
    for place, level in enumerate(columns.below):
        counted = _counted(gang, level, columns)
        domains = _domains(assignments, level, counted, framing)
        if not domains:
            continue
        own = _mode(gang, framing, level)
        members, least = sum(domains.values()), _least_of_members(assignments, level, framing)
        levels.append(
            LevelUse(level.level.name, level.attribute, own, tuple(map(DomainUse, domains, domains.values())))
        )
        bound = _bound(gang, framing, plan, assignments, level) if place >= len(fewest) else fewest[place][0]
        bound = max(1, min(bound, len(domains)))
        parts = {"gang": len(domains), "members": members}
        goals.append(Goal(f"compactness/{level.level.name}", len(domains), bound, parts))
        if own != "none":
            texts.append(f"their devices are in {_number(len(domains), level)}")
        if bound < len(domains):
            not_proven.append(f"other nodes on which fewer than {_number(len(domains), level)} may suffice")
        elif members > least:
            not_proven.append(f"other devices of which each pod may need fewer domains of {level.level.name}")
    return DomainsUsed(tuple(levels), tuple(goals), " and ".join(texts), tuple(not_proven))


def _least_of_members(assignments: Iterable[Assignment], level: DomainLevel, framing: Framing) -> int:
    """Return a lower bound of the sum, over the members, of the number of domains that a member uses.

    A new member needs the largest domains of one node that hold its devices. A running member keeps its devices.
    """
    columns, inventory = framing.devices, framing.devices.devices.inventory
    on_nodes = columns.on(framing.nodes)
    known: dict[tuple[Asked, ...], int] = {}
    total = 0
    for each in assignments:
        if each.held:
            contents = inventory.content[devices_of_pods([each.member.pod.key], columns)]
            total += len({one for one in level.of_content[contents].tolist() if one != NO_VALUE})
            continue
        asked = tuple(claim.asked for claim in _claims(each.member, columns))
        if asked not in known:
            devices = sum(least_devices(one, level, inventory) for one in asked)
            counted = counted_contents(asked, level, inventory)[inventory.content] & on_nodes
            capacities, nodes = _capacities(counted, level, columns)
            known[asked] = _fewest(capacities, nodes, devices, (), alone=True)
        total += known[asked]
    return total


def _number(count: int, level: DomainLevel) -> str:
    return f"{count} domain{'s' if count > 1 else ''} of {level.level.name}"


def _mode(gang: Gang, framing: Framing, level: DomainLevel) -> str:
    if any(level.level in each for each in required_levels(gang, framing.topology).values()):
        return "required"
    preferred = (gang.preferred, *(each.preferred for each in gang.pod_sets))
    named = (framing.topology.find_below(name) for name in preferred if name is not None)
    return "preferred" if level.level in named else "none"


def _counted(gang: Gang, level: DomainLevel, columns: DeviceColumns) -> Flags:
    """Return which contents of devices have a domain of the level, as one flag for each content of the inventory.

    A content has a domain if it has a value of the level's attribute. A content without a value has one if a request of
    the gang accepts it and also accepts some device with a value.
    """
    claims = [claim.asked for member in gang.members for claim in _claims(member, columns)]
    found: Flags = counted_contents(claims, level, columns.devices.inventory) | (level.of_content != NO_VALUE)
    return found


def _claims(member: Member, columns: DeviceColumns) -> Iterator[ClaimDemand]:
    demand = columns.demands.get(member.pod.key)
    yield from demand.claims if demand is not None else ()


def _domains(
    assignments: Iterable[Assignment], level: DomainLevel, counted: Flags, framing: Framing
) -> dict[tuple[str, ...], int]:
    """Return, by the path of each domain of the level, the number of members with devices in it, in the order of nodes
    and domains.
    """
    columns, inventory = framing.devices, framing.devices.devices.inventory
    places = {name: place for place, name in enumerate(framing.nodes)}
    devices: defaultdict[str, list[int]] = defaultdict(list)
    for each in assignments:
        if each.held:
            devices[each.member.pod.key] += devices_of_pods([each.member.pod.key], columns)
        for claim in each.devices:
            for pod in claim.pods:
                own = (inventory.positions[one.device] for one in claim.devices if not one.admin_access)
                devices[f"{claim.namespace}/{pod}"] += own
    found: Counter[tuple[int, int]] = Counter()
    for each in assignments:
        contents = inventory.content[devices[each.member.pod.key]]
        found.update({(places[each.node], int(one)) for one in level.of_content[contents[counted[contents]]]})
    return {
        (*framing.problem.nodes[node].path, framing.nodes[node], level.text(domain)): count
        for (node, domain), count in sorted(found.items())
    }


def _bound(gang: Gang, framing: Framing, plan: Plan, assignments: Sequence[Assignment], level: DomainLevel) -> int:
    """Return a lower bound of the number of domains of this level that the gang's devices are in.

    The bound holds for every plan that is as good as the given one in all goals of the solver. Each domain is assumed
    to offer all its free devices, and those of evictable pods if the plan has victims. Constraints on nodes are
    ignored. If all these plans put the gang on one node, only domains of one node are combined.
    """
    columns, inventory = framing.devices, framing.devices.devices.inventory
    new = [each.member for each in assignments if not each.held]
    by_pod = [[claim.asked for claim in _claims(each, columns)] for each in new]
    claims = [asked for each in by_pod for asked in each]
    counted = counted_contents(claims, level, inventory)[inventory.content] & columns.on(framing.nodes)
    if not plan.victims:
        counted = counted & columns.free
    capacities, nodes = _capacities(counted, level, columns)
    needs = [sum(least_devices(asked, level, inventory) for asked in each) for each in by_pod]
    held = _held(assignments, level, columns)
    alone = not held and _on_one_node(framing, plan)
    bounds = [_fewest(capacities, nodes, sum(needs), held, alone=alone)]
    bound_sets = {name for name, required in required_levels(gang, framing.topology).items() if level.level in required}
    bound = sorted(need for each, need in zip(new, needs, strict=True) if need and each.pod_set in bound_sets)
    for size in dict.fromkeys(bound):  # a pod of this size needs so many free devices in one domain
        pods = sum(need >= size for need in bound)
        bounds.append(
            _fewest({key: capacity // size for key, capacity in capacities.items()}, nodes, pods, held, alone=alone)
        )
    return max(bounds)


_Domain = tuple[int, int]
"""The position of a node in the inventory, and the number of a domain on it."""


def _capacities(counted: Flags, level: DomainLevel, columns: DeviceColumns) -> tuple[dict[_Domain, int], set[int]]:
    """Return two results. The first: the capacity of each domain, as the number of claims for one device that it can
    serve. The second: the nodes of these domains.

    `counted`: for each device of the inventory, whether it counts for the level.
    """
    inventory = columns.devices.inventory
    content = inventory.content[counted]
    pairs = np.stack([inventory.node[counted], level.of_content[content]], axis=1)
    domains, place = np.unique(pairs, axis=0, return_inverse=True)
    capacities = np.bincount(place.ravel(), weights=shares(inventory)[content], minlength=len(domains)).astype(np.int64)
    found = {
        (node, domain): capacity for (node, domain), capacity in zip(domains.tolist(), capacities.tolist(), strict=True)
    }
    return found, {node for node, _ in found}


def _held(assignments: Iterable[Assignment], level: DomainLevel, columns: DeviceColumns) -> set[_Domain]:
    """Return the domains in which running members have devices."""
    inventory = columns.devices.inventory
    devices = devices_of_pods([each.member.pod.key for each in assignments if each.held], columns)
    found = {(int(inventory.node[one]), int(level.of_content[inventory.content[one]])) for one in devices}
    return {(node, domain) for node, domain in found if domain != NO_VALUE}


def _on_one_node(framing: Framing, plan: Plan) -> bool:
    """Return whether the plan uses one node. Then every equally compact plan uses one node, too."""
    level = framing.problem.levels[-1]
    return any(goal.name == f"compactness/{level}" and goal.value == 1 for goal in plan.goals)


def _fewest(
    capacities: Mapping[_Domain, int], nodes: Collection[int], needed: int, held: Collection[_Domain], *, alone: bool
) -> int:
    """Return the least number of domains, those in `held` included, that together have the capacity `needed`.

    `held`: the domains that the gang's running members use. `alone`: whether all further domains must be on one node.
    """
    further = needed - sum(capacities.get(each, 0) for each in held)
    others = {each: capacity for each, capacity in capacities.items() if each not in held}
    groups = (
        [[capacity for (at, _), capacity in others.items() if at == node] for node in nodes]
        if alone
        else [[*others.values()]]
    )
    return len(held) + min((count for each in groups if (count := _most_first(each, further)) is not None), default=0)


def _most_first(capacities: Sequence[int], needed: int) -> int | None:
    """Return how many of the capacities, the largest first, are needed for a sum of `needed`; None if all together do
    not suffice.
    """
    count = 0
    for capacity in sorted(capacities, reverse=True):
        if needed <= 0:
            break
        needed -= capacity
        count += 1
    return None if needed > 0 else count


def on_best_node(framing: Framing, plan: Plan) -> tuple[Plan, Counts]:
    """Return a plan that is as good as `plan` in all goals of the solver, and whose devices need the fewest domains of
    levels below the node.

    Other nodes are searched only if `plan` puts all members on one node and evicts nothing. Then the second result is,
    by level, the fewest domains of any plan that is as good; it is empty if that number is not known.
    """
    columns = framing.devices
    used = {node for row in plan.nodes for node in row if node is not None}
    pinned = any(member.node is not None for each in framing.problem.sets for member in each.members)
    if (
        not columns.below
        or len(used) != 1
        or plan.victims
        or pinned
        or framing.among_members
        or framing.problem.spreads
    ):
        return plan, ()
    (node,) = used
    found = _counts_by_node(framing, plan)
    if found is None or node not in found:
        return plan, ()
    better = sorted((counts, other) for other, counts in found.items() if counts < found[node])
    for counts, other in better[:MOST_MOVES]:
        nodes = tuple(tuple(None if each is None else other for each in row) for row in plan.nodes)
        moved = replace(plan, nodes=nodes)
        if not verify(framing.problem, moved):
            return moved, counts
    return plan, found[node] if len(better) <= MOST_MOVES else ()


def _numbered(domains: Iterable[int]) -> tuple[int, ...]:
    """Return the domains of a node's devices, numbered in the order of appearance, so that nodes can be compared."""
    numbers = {NO_VALUE: NO_VALUE}
    return tuple([numbers.setdefault(each, len(numbers)) for each in domains])


def _counts_by_node(framing: Framing, plan: Plan) -> dict[int, Counts] | None:
    """Return, by node that can hold all members of the plan, the fewest domains of each level.

    None if a search is cut off, or if the nodes have too many different sets of devices.
    """
    columns = framing.devices
    placed = [
        (member.pod.key, problem_member.shape)
        for pod_set, members, row in zip(framing.problem.sets, framing.members, plan.nodes, strict=True)
        for problem_member, member, node in zip(pod_set.members, members, row, strict=True)
        if node is not None
    ]
    pods = [pod for pod, _ in placed if pod in columns.demands]
    eligible = frozenset[int].intersection(*(framing.problem.shapes[shape].nodes for _, shape in placed))
    inventory, known = columns.devices.inventory, dict[object, Counts | None]()
    held = set(held_by_gangs(pods, columns))
    alike = alike_contents([claim.asked for pod in pods for claim in columns.demands[pod].claims], inventory)
    found: dict[int, Counts] = {}
    for node in sorted(eligible):
        name = framing.nodes[node]
        here = inventory.on(name)
        own = name if inventory.counters or columns.used or held.intersection(here) else name in inventory.incomplete
        contents = inventory.content[here]
        domains = tuple([_numbered(level.of_content[contents].tolist()) for level in columns.below])
        key = alike[contents].tobytes(), columns.free[here].tobytes(), domains, own
        if key not in known:
            few = fewest_on(name, pods, columns.free, columns.used, columns)
            if len(known) == MOST_CONTENTS or (few is not None and not few.exact):
                return None
            known[key] = None if few is None else few.counts
        counts = known[key]
        if counts is not None:
            found[node] = counts
    return found
