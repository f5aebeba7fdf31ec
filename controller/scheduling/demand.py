"""The minimum demand of a gang, which the capacity bound reads, and a comparison of two gangs' demands: whether they
are equal except for names.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from weakref import WeakValueDictionary

import msgspec

from cluster.node_state import Amounts
from controller.scheduling.eligibility_cache import EligibilityClass, eligibility_classes_of
from gangs.dialects.topologies import topology_of
from gangs.held_nodes import held_node
from gangs.model import Fault, Gang, GangKey, Member, ObjectRef
from kube.keys import PINNED_DOMAIN, PINNED_IN
from kube.objects import Pod, PodSpec
from kube.placeholders import to_come
from kube.requests import pod_requests
from kube.topology import Topology

Requests = tuple[tuple[str, int], ...]
"""(resource, amount) pairs, sorted by resource. Amounts are in the resource's base unit."""
_UNTIED_VOLUMES = frozenset(("projected", "configMap", "secret", "emptyDir", "downwardAPI"))
"""Types of volumes that do not tie a pod to a node. The names of such volumes may differ from pod to pod."""


def request_of(gang: Gang) -> object:
    """Return a value that is equal as long as the gang's placement request is equal.

    It leaves out what the controller itself writes on members, such as nominations and annotations.
    """
    members = tuple((m.pod.metadata.uid, m.pod.spec, m.pod_set, m.index) for m in gang.members)
    return replace(gang, members=()), members


@dataclass(frozen=True, slots=True)
class Need:
    """A number of pods that must run together in one domain of `level`; None: in any domains. `pods` is their number.

    Each pod requests at least the amounts `requests`. Each pod may run only on nodes that at least one of
    `eligibility_classes` allows.
    """

    pods: int
    requests: Requests
    level: str | None
    eligibility_classes: tuple[EligibilityClass, ...]


@dataclass(frozen=True, eq=False)
class DemandClass:
    """The part of a gang that the capacity bound reads: its priority, its needs, and `amounts`, the least total
    requests of its minimum.

    All gangs with equal values share one object (`MinimumDemand.demand_class`), so it is compared by identity.
    """

    priority: int
    amounts: Requests
    needs: Sequence[Need]


_CLASSES: WeakValueDictionary[tuple[int, Requests, Sequence[Need]], DemandClass] = WeakValueDictionary()
"""The shared `DemandClass` objects by their content, as long as a gang refers to them."""


@dataclass(frozen=True)
class MinimumDemand:
    """A lower bound on the capacity that a gang takes from a cluster."""

    gang: Gang

    @cached_property
    def demand_class(self) -> DemandClass:
        """The gang's demand class: one object for all gangs with equal priority and needs.

        Its needs are empty if no lower bound of the gang's requests is known.
        """
        gang, needed = self.gang, self._needed
        amounts = tuple(sorted((name, needed * value) for name, value in self._of_member.items()))
        content = gang.priority, amounts, tuple(self._needs()) if amounts else ()
        shared = _CLASSES.get(content)
        if shared is None:
            shared = _CLASSES[content] = DemandClass(*content)
        return shared

    def topology(self, known: Sequence[Topology]) -> Topology | Fault | None:
        """Return the topology in which the gang is placed; a fault if its placement request is wrong; None if there is
        no topology.

        :param known: all topologies of the cluster. The result is cached while this is the same list object.
        """
        before = self.__dict__.get("_topology")
        if before is None or before[0] is not known:
            before = self.__dict__["_topology"] = known, topology_of(self.gang, known)
        found: Topology | Fault | None = before[1]
        return found

    def _needs(self) -> Iterator[Need]:
        """Yield the needs of the whole gang and of each pod set."""
        gang = self.gang
        yield _need(self._needed, gang.members, gang.required, ignoring=gang.ignores_claims)
        if gang.succeeded or len(gang.pod_sets) <= 1:
            return
        for pod_set in gang.pod_sets:
            members = [member for member in gang.members if member.pod_set == pod_set.name]
            if pod_set.min_count and members:
                level = pod_set.required or gang.required
                yield _need(pod_set.min_count, members, level, ignoring=gang.ignores_claims)

    @property
    def _needed(self) -> int:
        gang = self.gang
        if gang.succeeded:
            return gang.still_needed
        return max(gang.still_needed, sum(pod_set.min_count for pod_set in gang.pod_sets))

    @property
    def _of_member(self) -> Amounts:
        """By resource, the least amount that any member requests; empty if the gang's demand cannot be bounded in this
        way.

        That is so if a member already has a node, the gang is subject to a quota, the members differ in priority, or a
        request cannot be parsed. Such gangs are always planned.
        """
        gang = self.gang
        if gang.queue or gang.account is not None or any(held_node(member.pod) for member in gang.members):
            return {}
        if len({member.pod.spec.priority for member in gang.members}) > 1:
            return {}
        try:
            return _least(gang.members, ignoring=gang.ignores_claims)
        except ValueError:
            return {}


def _need(pods: int, members: Sequence[Member], level: str | None, *, ignoring: bool) -> Need:
    requests = _least(members, ignoring=ignoring)
    return Need(pods, tuple(sorted(requests.items())), level, eligibility_classes_of(member.pod for member in members))


def _least(members: Iterable[Member], *, ignoring: bool) -> Amounts:
    """Return, by resource, the smallest amount that any of these members requests. Resources with 0 are left out.

    Extended resources of expected pods count as 0, because such a request may become a claim at the pod's admission.
    `ignoring`: whether the gang ignores claims. Then they count as 0, too, because a DeviceClass may provide them.
    """
    least: dict[str, int] | None = None
    for pod in (member.pod for member in members):
        asked = pod_requests(pod)
        if ignoring or to_come(pod):
            asked = {name: value for name, value in asked.items() if "/" not in name}
        if least is None:
            least = asked
        elif least != asked:
            least = {name: min(value, asked.get(name, 0)) for name, value in least.items()}
    return {name: value for name, value in (least or {}).items() if value}


def asks_for_the_same(one: Gang, other: Gang, *, labels_count: bool) -> bool:
    """Return whether two gangs have equal constraints and preferences, and pods that differ in names only.

    :param labels_count: whether the labels of the pods must be equal, too. They decide where the pods may run if pods
        in the cluster have anti-affinity.
    """
    return (
        len(one.members) == len(other.members)
        and _without_names(one) == _without_names(other)
        and all(
            _is_same_member(member, counterpart, labels_count=labels_count)
            for member, counterpart in zip(one.members, other.members, strict=True)
        )
    )


def _without_names(gang: Gang) -> Gang:
    """Return the gang without members, names, UID and creation time, so that equal requests compare as equal."""
    source = replace(gang.source, name="", uid="")
    key = GangKey(gang.key.dialect, gang.key.namespace, "")
    groups = tuple(ObjectRef("", "", "", "") for _ in gang.groups)
    return replace(gang, key=key, source=source, groups=groups, members=(), created="", part="")


def _is_same_member(one: Member, other: Member, *, labels_count: bool) -> bool:
    of, to = one.pod.metadata, other.pod.metadata
    return (
        (one.pod_set, one.index) == (other.pod_set, other.index)
        and (not labels_count or of.labels == to.labels)
        and all(of.annotations.get(pin) == to.annotations.get(pin) for pin in (PINNED_DOMAIN, PINNED_IN))
        and _without_untied_volumes(one.pod) == _without_untied_volumes(other.pod)
    )


def _without_untied_volumes(pod: Pod) -> PodSpec:
    """Return the pod's spec without the volumes that do not tie the pod to a node, such as configMaps."""
    volumes = tuple(volume for volume in pod.spec.volumes if _UNTIED_VOLUMES.isdisjoint(volume))
    return pod.spec if len(volumes) == len(pod.spec.volumes) else msgspec.structs.replace(pod.spec, volumes=volumes)
