"""GangGroups of Koordinator: PodGroups that start together. In Phalanx a GangGroup is one gang.

Each PodGroup, or gang name on pods, is a unit of the GangGroup, and a pod set of the gang.
"""

from collections.abc import Mapping, Sequence
from math import lcm

from gangs.assembling import GangWorkload, assemble
from gangs.findings import Findings
from gangs.koordinator import NAME, keys
from gangs.koordinator.settings import DEFAULTS, TITLE, Settings
from gangs.koordinator.strategy import FIELD, NO_WISH, Strategy
from gangs.koordinator.units import ONCE_SATISFIED, ONLY_WAITING, STRICT, Unit, annotation
from gangs.membership import GivenRank, Seat, check_priorities, given_rank, live, seated
from gangs.model import Gang, GangKey, PlacementRequest, PodSet
from gangs.topology.levels import Settled, settle
from gangs.topology.network_layers import Wanted, request_of, wanted
from kube.names import natural_key
from kube.objects import Pod
from kube.topology import Topology

_MAIN = "main"


def groups_of(units: Mapping[GangKey, Unit]) -> list[list[Unit]]:
    """Divide units (PodGroups) into GangGroups. Two units are in one GangGroup if one lists the other, directly or
    through further units.

    Each GangGroup, and the result, is ordered by key.
    """
    links: dict[GangKey, set[GangKey]] = {}
    for key, unit in units.items():
        for other in unit.groups:
            links.setdefault(key, set()).add(other)
            links.setdefault(other, set()).add(key)
    seen: set[GangKey] = set()
    found = []
    for key in sorted(units):
        if key not in seen:
            reached = _reached(key, links)
            seen |= reached
            found.append([units[each] for each in sorted(reached) if each in units])
    return found


def _reached(start: GangKey, links: Mapping[GangKey, set[GangKey]]) -> set[GangKey]:
    reached, todo = {start}, [start]
    while todo:
        new = links.get(todo.pop(), set()) - reached
        reached |= new
        todo += new
    return reached


def check_agreement(units: Sequence[Unit], findings: Findings) -> None:
    """Report units (PodGroups) of a GangGroup that list other units, or have another gather strategy, than its oldest
    unit.

    A unit whose PodGroup does not exist is not compared.
    """
    complete = [unit for unit in units if not unit.waiting_for]
    in_order = sorted(complete, key=lambda unit: (unit.created or "~", natural_key(unit.key.name)))
    for unit in in_order[1:]:
        eldest = in_order[0]
        if unit.listed != eldest.listed:
            problem = f"lists {_listed(unit.listed)}, but {eldest.ref} lists {_listed(eldest.listed)}"
            findings.fault(unit.ref, annotation(keys.GROUPS), problem, "write the same list on all of them")
        elif unit.strategy.stated() != eldest.strategy.stated():
            problem = f"differs from that of {eldest.ref}, which is in the same group"
            findings.fault(unit.ref, FIELD, problem, "write the same on all of them")


def _listed(groups: frozenset[GangKey]) -> str:
    return "[" + ", ".join(map(str, sorted(groups))) + "]"


def read_group(
    units: Sequence[Unit],
    topologies: Sequence[Topology],
    findings: Findings,
    settings: Settings = DEFAULTS,
    all_pods: Sequence[Pod] = (),
) -> Gang | None:
    """Return the gang that a GangGroup is; None if it has faults, which go to `findings`.

    :param units: the units of the GangGroup, ordered by key; at least one.
    :param settings: the content of Koordinator's ConfigMap.
    :param all_pods: all pods. The gang prefers nodes near those with the same topology selector as one of its members.
    """
    first = units[0]
    own = Findings()
    check_agreement(units, own)
    strategy = _honoured(first, settings, own)
    settled = settle(request_of(strategy.gathers, first.ref, FIELD), topologies, own)
    levels = Wanted() if own.faults else wanted(strategy.gathers, settled.topology, first.ref, own)
    check_priorities([pod for unit in units for pod in unit.pods], first.ref, own)
    _check_multiples(units, own)
    names = set_names(units)
    seats = [Seat(pod, names[unit.key], _rank(pod, own)) for unit in units for pod in unit.pods]
    members = seated(seats, [names[unit.key] for unit in units], own)
    findings.take(own.faults, own.advice)
    if own.faults:
        return None
    multiples = strategy.multiples
    sets = _pod_sets(units, names, strategy)
    minimum, refs = sum(each.min_count for each in sets), tuple(unit.ref for unit in units)
    named, kind = _topology(settled, topologies)
    request = PlacementRequest(
        topology=named,
        topology_kind=kind,
        required=levels.required,
        preferred=levels.preferred,
        multiples=multiples if len(units) > 1 else (),
        near=_near([member.pod for member in members], all_pods),
        schedule_timeout_seconds=min((u.timeout for u in units if u.timeout is not None), default=None),
        all_or_none=any(unit.mode == STRICT for unit in units),
        messages=NAME,
        preempts=settings.preemption,
    )
    return assemble(
        min(first.groups.union(names)),
        GangWorkload(first.ref, members, sets, minimum, first.created, refs),
        request,
        _waiting_for(units, settled),
    )


def _pod_sets(units: Sequence[Unit], names: Mapping[GangKey, str], strategy: Strategy) -> tuple[PodSet, ...]:
    """Return one pod set for each unit (PodGroup) of a GangGroup.

    If there is only one unit, its pod set gets the constraints on multiples; otherwise the whole gang does.

    :param names: the name of the pod set of each unit.
    """
    multiples = strategy.multiples if len(units) == 1 else ()
    return tuple(PodSet(names[each.key], expected(each), needed(each, units), multiples=multiples) for each in units)


def _waiting_for(units: Sequence[Unit], settled: Settled) -> tuple[str, ...]:
    """Return the entries of `Gang.waiting_for` of a GangGroup.

    They name PodGroups, agreements of other namespaces and a topology that are missing, and units that need more pods.
    """
    lacks = dict.fromkeys(what for unit in units for what in (*unit.waiting_for, *unit.lacks))
    absent = sorted(units[0].groups - {unit.key for unit in units})
    named = (f"{keys.POD_GROUP_KIND} {key}" for key in absent)
    return (*lacks, *named, *settled.waiting_for, *_only_waiting(units))


def _honoured(unit: Unit, settings: Settings, findings: Findings) -> Strategy:
    """Return the gather strategy of a unit (PodGroup): the layers that its pods must or should share. Empty if
    Koordinator's ConfigMap disables the network topology.
    """
    if settings.topology or not unit.strategy.gathers:
        return unit.strategy
    findings.advise(unit.ref, FIELD, f"is not honoured: awareNetworkTopology is not true in {TITLE}")
    return NO_WISH


def needed(unit: Unit, group: Sequence[Unit]) -> int:
    """Return the number of pods of a unit (PodGroup) that must run together: its minimum, with one exception.

    With the match policy once-satisfied, a gang that has started does not wait for its minimum again. A bound member
    shows that it has started. A pod that replaces a lost one then needs only the existing pods of the unit.

    :param group: all units of the GangGroup.
    """
    started = any(pod.bound for each in group for pod in each.pods)
    coming = any(not pod.bound for each in group for pod in each.pods)
    if unit.policy == ONCE_SATISFIED and started and coming:
        return min(unit.minimum, len(unit.pods))
    return unit.minimum


def _only_waiting(units: Sequence[Unit]) -> tuple[str, ...]:
    """Return the entries of `Gang.waiting_for` about units (PodGroups) with the match policy only-waiting.

    This policy does not count pods that have a node already, so such a unit may need more pods.
    """
    found = []
    for unit in units:
        waiting = sum(not pod.bound for pod in unit.pods)
        if unit.policy == ONLY_WAITING and 0 < waiting < min(unit.minimum, len(unit.pods)):
            lacks = unit.minimum - waiting
            more = "1 more pod" if lacks == 1 else f"{lacks} more pods"
            found.append(f"{more} of {unit.key}: {waiting} of {unit.minimum} wait, and {ONLY_WAITING} counts no others")
    return tuple(found)


def _topology(settled: Settled, topologies: Sequence[Topology]) -> tuple[str | None, str | None]:
    """Return name and kind of a gang's topology.

    A gang without a gather strategy uses the only existing topology, of any kind. Without one, the name is None.
    """
    if settled.topology is None and not settled.waiting_for and len(topologies) == 1:
        return topologies[0].name or None, topologies[0].kind
    return keys.TOPOLOGY_NAME if settled.topology or settled.waiting_for else None, keys.TOPOLOGY_KIND


def expected(unit: Unit) -> int:
    """Return the number of pods that a unit (PodGroup) should have: its total-number, or its minimum if it states none.

    If more pods exist, it is their number.
    """
    return max(unit.declared or unit.minimum, len(unit.pods))


def set_names(units: Sequence[Unit]) -> dict[GangKey, str]:
    """Return, by unit (PodGroup), the name of its pod set in the gang: `main` for a single unit, else the unit's name.

    If two units have the same name, it is `<namespace>.<name>`.
    """
    if len(units) == 1 and len(units[0].groups) == 1:
        return {units[0].key: _MAIN}
    names = [unit.key.name for unit in units]
    return {unit.key: _set_name(unit.key, alone=names.count(unit.key.name) == 1) for unit in units}


def _set_name(key: GangKey, *, alone: bool) -> str:
    return key.name if alone else f"{key.namespace}.{key.name}"


def named_by_set(gang: GangKey, pod_set: str) -> GangKey:
    """Return the key of the unit (PodGroup, or gang name on pods) of a GangGroup that is the pod set with this name."""
    namespace, slash, name = pod_set.partition("/")
    return GangKey(NAME, namespace, name) if slash else GangKey(NAME, gang.namespace, pod_set)


def _near(members: Sequence[Pod], all_pods: Sequence[Pod]) -> tuple[str, ...]:
    """Return the nodes of bound pods of other gangs with the same topology selector as an unbound member.

    The members prefer to be near these nodes.

    :param all_pods: all pods.
    """
    own = {pod.key for pod in members}
    wanted = {selector_of(pod) for pod in members if not pod.bound} - {None}
    if not wanted:
        return ()
    others = (pod for pod in live(all_pods) if pod.bound and pod.key not in own)
    return tuple(sorted(pod.spec.node_name for pod in others if selector_of(pod) in wanted))


def selector_of(pod: Pod) -> tuple[str, str] | None:
    """Return namespace and value of the pod's topology selector; None if it has none."""
    text = pod.metadata.annotations.get(keys.SELECTOR)
    return (pod.metadata.namespace, text) if text else None


def _rank(pod: Pod, findings: Findings) -> GivenRank | None:
    return given_rank(pod, (("metadata.annotations", pod.metadata.annotations, keys.INDEX),), findings)


def _check_multiples(units: Sequence[Unit], findings: Findings) -> None:
    """Report a GangGroup that cannot meet its `podCountMultiple`s with any number of pods.

    Each domain holds a multiple of `podCountMultiple` pods, so the number of all pods must be such a multiple, too.
    """
    unit = units[0]
    rules = unit.strategy.multiples
    if not rules or unit.groups - {each.key for each in units}:
        return
    at = f"{FIELD}.gatherStrategy"
    step, most = lcm(*(rule.of for rule in rules)), sum(map(expected, units))
    least = sum(each.minimum for each in units)
    if most // step * step >= least:
        return
    problem = f"no number of pods from {least} to {most} is a multiple of {step}"
    if all(each.declared is not None for each in units):
        findings.fault(unit.ref, at, problem, "change minMember, total-number or podCountMultiple")
    else:
        findings.advise(unit.ref, at, f"{problem}: the gang needs more pods than its minimum")
