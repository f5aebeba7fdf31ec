"""Topology spread limits for members of one gang, and the list of constraints that Phalanx does not model."""

from collections.abc import Iterable, Iterator, Sequence

from cluster.devices.extended_resources import provided_by_classes
from cluster.eligibility.pod_affinity import Namespaces, Spread, affinity_terms
from cluster.node_state import NodeState
from cluster.selectors import selects
from cluster.snapshot import Snapshot
from cluster.volumes import claim_names
from kube.objects import Pod

CLAIMS = "dynamic resource claims (spec.resourceClaims)"
"""The phrase for the resource claims of a pod, for messages."""
Groups = tuple[str | None, ...]
"""For each node, the domain in which it counts towards one limit; None if the limit does not concern the node."""


def spread_limits(spreads: Iterable[Spread], nodes: Sequence[NodeState]) -> list[tuple[str, Groups, int]]:
    """Return how many more equal pods each domain may take by a pod's hard topology spread constraints.

    Each entry is (topology key, domain of each node, limit): each of these domains may take `limit` more pods. Domains
    with equal limits share an entry. For example, ("zone", ("a", None, "a"), 2) allows 2 more pods in zone a.
    The limits assume that the emptiest domain stays as it is. So the stock scheduler can bind a plan within the limits
    in any order. If that domain is filled, too, more pods would fit.
    """
    limits: list[tuple[str, Groups, int]] = []
    for spread in spreads:
        domains = [state.node.metadata.labels.get(spread.topology_key) for state in nodes]
        rooms = {domain: spread.room(domain) for domain in dict.fromkeys(domains) if domain is not None}
        closed = {domain for domain in rooms if spread.closes(domain)}
        # A pod that its own constraint does not count fills no domain.
        rooms = {domain: most for domain, most in rooms.items() if spread.self_matching and most}
        rooms |= dict.fromkeys(closed, 0)
        for most in sorted(set(rooms.values())):
            alike = {domain for domain, room in rooms.items() if room == most}
            groups = tuple([each if each in alike else None for each in domains])
            limits.append((spread.topology_key, groups, most))
    return limits


def unmodelled(pod: Pod, siblings: Sequence[Pod] = (), snapshot: Snapshot | None = None) -> tuple[str, ...]:
    """Return the pod's constraints and preferences that planning does not consider, each as a phrase for messages.

    :param siblings: the other members of its gang.
    :param snapshot: to look up volume claims and RuntimeClasses; None: these are not checked.
    """
    namespaces = {} if snapshot is None else snapshot.namespaces
    among = among_members(pod, siblings, namespaces)
    found = (*_of_the_pod(pod), *among, *_of_volumes(pod, snapshot), *_of_runtime_class(pod, snapshot))
    return tuple(dict.fromkeys((*found, *_of_device_classes(pod, snapshot))))


def _of_device_classes(pod: Pod, snapshot: Snapshot | None) -> Iterator[str]:
    """Yield the extended resources that the pod requests and that only a DeviceClass provides. No devices are planned
    for such a request.
    """
    if snapshot is not None and snapshot.device_classes:
        for name in provided_by_classes(pod.spec, snapshot.device_classes, snapshot.allocatable_resources):
            yield f"devices for {name}"


def _of_the_pod(pod: Pod) -> Iterator[str]:
    spec = pod.spec
    if spec.resource_claims:
        yield CLAIMS
    if any(each.when_unsatisfiable == "ScheduleAnyway" for each in spec.topology_spread_constraints):
        yield "soft topology spread (whenUnsatisfiable: ScheduleAnyway)"
    affinity = spec.affinity
    if affinity is not None:
        if affinity.pod_affinity is not None and affinity.pod_affinity.preferred:
            yield "preferred pod affinity"
        if affinity.pod_anti_affinity is not None and affinity.pod_anti_affinity.preferred:
            yield "preferred pod anti-affinity"
    if any(each.operator in ("Lt", "Gt") for each in spec.tolerations):
        yield "tolerations that compare numbers (operators Lt and Gt)"


def among_members(pod: Pod, siblings: Sequence[Pod], namespaces: Namespaces) -> Iterator[str]:
    """Yield the pod's affinity terms and spread constraints that concern members of its own gang, as phrases.

    Planning does not consider them, but a finished plan can be checked against them.
    """
    for term in affinity_terms(pod):
        if any(term.matches(each, namespaces) for each in (pod, *siblings)):
            yield f"pod affinity to members of the same gang ({term.topology_key})"
    for constraint in pod.spec.topology_spread_constraints:
        counted = any(selects(constraint.label_selector, each.metadata.labels) for each in (pod, *siblings))
        if constraint.when_unsatisfiable == "DoNotSchedule" and counted:
            yield f"topology spread of the gang's own members ({constraint.topology_key})"


def _of_runtime_class(pod: Pod, snapshot: Snapshot | None) -> Iterator[str]:
    """Yield a phrase if the overhead of the pod's RuntimeClass is unknown, because the snapshot lacks the class."""
    name = pod.spec.runtime_class_name
    if name and not pod.metadata.uid and snapshot is not None and name not in snapshot.runtime_classes:
        yield f"the overhead of RuntimeClass {name}, which is not known"


def _of_volumes(pod: Pod, snapshot: Snapshot | None) -> Iterator[str]:
    names = claim_names(pod)
    if names:
        yield "how many volumes a node can attach"
    for name in names if snapshot is not None else ():
        claim = snapshot.volumes.get(name) if snapshot is not None else None
        if claim is None:
            yield f"PersistentVolumeClaim {name}, which is not known"
        elif claim.unmodelled:
            yield f"{claim.unmodelled} (PersistentVolumeClaim {name})"
