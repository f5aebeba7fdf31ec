"""The gang of one PodGroup, or of all PodGroups below one CompositePodGroup."""

from collections.abc import Iterator, Sequence

from gangs.assembling import GangWorkload, assemble
from gangs.findings import Findings
from gangs.manifests import pod_ref
from gangs.membership import GivenRank, Seat, check_priorities, given_rank, seated
from gangs.model import Gang, GangKey, ObjectRef, PlacementRequest, PodSet, TogetherRule
from gangs.native import keys
from gangs.native.spec import NEVER
from gangs.native.units import Composite, Unit
from gangs.topology.levels import LevelWish, Request, Settled, settle
from kube.keys import INDEX
from kube.objects import Pod
from kube.topology import Topology

_MAIN = "main"


def read_group(units: Sequence[Unit], topologies: Sequence[Topology], findings: Findings) -> Gang | None:
    """Return the gang of PodGroups that are planned together; None if they have faults, which go to `findings`.

    The topology constraint of a CompositePodGroup applies to all PodGroups below it together. That of the topmost
    CompositePodGroup applies to the whole gang.

    :param units: one or more, sorted by key: a single PodGroup, or all PodGroups below one CompositePodGroup.
    """
    first, own = units[0], Findings()
    _check_composites(units, own)
    names = {unit.key: unit.key.name if unit.above else _MAIN for unit in units}
    pods = [pod for unit in units for pod in unit.pods]
    check_priorities(pods, first.ref, own)
    for unit in units:
        _check_pods(unit, own)
    settled = _settled(units, topologies, own)
    seats = [Seat(pod, names[unit.key], _rank(pod, own)) for unit in units for pod in unit.pods]
    members = seated(seats, [names[unit.key] for unit in units], own)
    findings.take(own.faults, own.advice)
    if own.faults:
        return None
    sets = tuple(_pod_set(unit, names[unit.key]) for unit in units)
    root = first.above[-1].spec if first.above else first.spec
    request = PlacementRequest(
        topology=settled.topology.name or None if settled.topology is not None else None,
        topology_kind=settled.topology.kind if settled.topology is not None else None,
        required=root.level if root is not None else None,
        together=tuple(_together(units, names)),
        preempts=all(unit.spec is None or unit.spec.preemption_policy != NEVER for unit in units),
        all_or_none=any(unit.spec is not None and unit.spec.is_gang for unit in units),
    )
    workload = GangWorkload(
        source=first.ref,
        members=members,
        pod_sets=sets,
        min_member=sum(each.min_count for each in sets),
        created=first.created,
        groups=tuple(unit.ref for unit in units if unit.spec is not None),
    )
    return assemble(min(names), workload, request, (*_waiting_for(units), *settled.waiting_for))


def _pod_set(unit: Unit, name: str) -> PodSet:
    minimum = unit.spec.minimum if unit.spec is not None else len(unit.pods)
    level = unit.spec.level if unit.spec is not None and unit.above else None
    return PodSet(name, max(minimum, len(unit.pods)), minimum, required=level)


def _together(units: Sequence[Unit], names: dict[GangKey, str]) -> Iterator[TogetherRule]:
    """Yield a rule for each CompositePodGroup, except the topmost, that names a topology level.

    The rule puts all PodGroups below it in one domain of that level.
    """
    inner = {each.ref: each.spec for unit in units for each in unit.above[:-1]}
    for ref, spec in inner.items():
        if spec is not None and spec.level is not None:
            below = tuple(names[unit.key] for unit in units if ref in {each.ref for each in unit.above})
            yield TogetherRule(below, spec.level)


def _settled(units: Sequence[Unit], topologies: Sequence[Topology], findings: Findings) -> Settled:
    """Return a topology that has all levels that the PodGroups and CompositePodGroups name; if there is none, return
    what the gang waits for.

    If no group names a level, the result has neither a topology nor an object that the gang waits for.
    """
    at = f"{keys.TOPOLOGY}[0].key"
    levels = [unit.spec.level for unit in units if unit.spec is not None]
    levels += [each.spec.level for unit in units for each in unit.above if each.spec is not None]
    wishes = tuple(LevelWish(at, level) for level in dict.fromkeys(levels) if level)
    if not wishes:
        return Settled()
    having = [each for each in topologies if all(each.find(wish.level) is not None for wish in wishes)]
    pods = tuple(pod for unit in units for pod in unit.pods)
    request = Request(units[0].ref, at, levels=wishes, pods=pods)
    return settle(request, having or topologies, findings)


def _children(units: Sequence[Unit]) -> dict[ObjectRef, tuple[Composite, set[ObjectRef]]]:
    """Return, by reference, each CompositePodGroup above the PodGroups, with the groups that name it as parent."""
    found: dict[ObjectRef, tuple[Composite, set[ObjectRef]]] = {}
    for unit in units:
        child = unit.ref
        for composite in unit.above:
            found.setdefault(composite.ref, (composite, set()))[1].add(child)
            child = composite.ref
    return found


def _check_composites(units: Sequence[Unit], findings: Findings) -> None:
    """Report each CompositePodGroup whose `minGroupCount` is less than the number of its child groups.

    Such a CompositePodGroup is refused, because the plan would choose which child groups start, and this choice could
    not be changed once their pods are released.
    """
    for composite, children in _children(units).values():
        count = len(children)
        if composite.spec is not None and count > composite.spec.min_groups > 0:
            problem = f"{composite.spec.min_groups} of {count} groups cannot be asked for"
            remedy = f"write {count}: all of them start, or give the others a CompositePodGroup of their own"
            findings.fault(composite.ref, keys.MIN_GROUP_COUNT, problem, remedy)


def _waiting_for(units: Sequence[Unit]) -> Iterator[str]:
    """Yield the objects that the gang waits for: PodGroups, CompositePodGroups, and child groups that are missing."""
    for unit in units:
        if unit.spec is None:
            yield f"{keys.POD_GROUP_KIND} {unit.key}"
    for composite, children in _children(units).values():
        if composite.spec is None:
            yield str(composite.ref)
        elif (more := composite.spec.min_groups - len(children)) > 0:
            yield f"{more} more {'group' if more == 1 else 'groups'} of {composite.ref}"


def _check_pods(unit: Unit, findings: Findings) -> None:
    """Report pods whose priority differs from that of their PodGroup: kube-scheduler binds no pod of such a PodGroup.

    Source: `validatePodGroup` of kube-scheduler 1.37, schedule_one_podgroup.go.
    """
    if unit.spec is None:
        return
    for pod in unit.pods:
        number, name = pod.spec.priority, pod.spec.priority_class_name
        if number is not None and unit.spec.priority is not None:
            at, same = "spec.priority", number == unit.spec.priority
            problem = f"{number} differs from {unit.spec.priority} of {unit.ref}"
        else:
            at, same = "spec.priorityClassName", name == unit.spec.priority_class_name
            problem = f'class "{name}" differs from class "{unit.spec.priority_class_name}" of {unit.ref}'
        if not same:
            findings.fault(pod_ref(pod), at, problem, "give the pods and their PodGroup one priority class")


def _rank(pod: Pod, findings: Findings) -> GivenRank | None:
    meta = pod.metadata
    places = (("metadata.annotations", meta.annotations, INDEX), ("metadata.labels", meta.labels, INDEX))
    return given_rank(pod, places, findings)
