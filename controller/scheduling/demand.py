"""The minimum demand of a gang, for the comparison with the capacity bound of a cluster."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from weakref import WeakValueDictionary

from cluster.node_state import Amounts
from controller.scheduling.eligibility_cache import EligibilityClass, eligibility_classes_of
from gangs.dialects.topologies import topology_of
from gangs.held_nodes import held_node
from gangs.model import Fault, Gang, Member
from kube.objects import Pod
from kube.requests import pod_requests
from kube.topology import Topology

Requests = tuple[tuple[str, int], ...]
"""Amounts by resource."""


def request_of(gang: Gang) -> object:
    """Return the gang's request, to be compared by equality, without what the controller writes on the members."""
    members = tuple((m.pod.metadata.uid, m.pod.spec, m.pod_set, m.index) for m in gang.members)
    return replace(gang, members=()), members


@dataclass(frozen=True, slots=True)
class Need:
    """A number of pods that must run in one domain of a level; in any domains if `level` is None.

    Each pod requests at least the amounts `requests`. Each pod may run only on nodes that at least one of
    `eligibility_classes` allows.
    """

    pods: int
    requests: Requests
    level: str | None
    eligibility_classes: tuple[EligibilityClass, ...]


@dataclass(frozen=True)
class DemandClass:
    """The needs that gangs have in common, with all inputs of the capacity bound.

    All gangs with equal needs share one object (`MinimumDemand.demand_class`), so it is compared by identity.
    """

    priority: int
    amounts: Requests
    needs: Sequence[Need]

    __eq__ = object.__eq__
    __hash__ = object.__hash__


_CLASSES: WeakValueDictionary[tuple[int, Requests, Sequence[Need]], DemandClass] = WeakValueDictionary()
"""The shared `DemandClass` objects by their content, as long as a gang refers to them."""


@dataclass(frozen=True)
class MinimumDemand:
    """A lower bound on the capacity that a gang takes from a cluster."""

    gang: Gang

    @cached_property
    def demand_class(self) -> DemandClass:
        """The gang's needs, in one object that all gangs with equal needs share."""
        content = self.priority, tuple(sorted(self.amounts.items())), self.needs
        shared = _CLASSES.get(content)
        if shared is None:
            shared = _CLASSES[content] = DemandClass(*content)
        return shared

    def topology(self, known: Sequence[Topology]) -> Topology | Fault | None:
        """Return the topology in which the gang is placed, a fault, or None.

        :param known: all topologies. The result is cached until this is another object.
        """
        before = self.__dict__.get("_topology")
        if before is None or before[0] is not known:
            before = self.__dict__["_topology"] = known, topology_of(self.gang, known)
        found: Topology | Fault | None = before[1]
        return found

    @cached_property
    def members(self) -> int:
        """The number of members, which measures the cost of planning the gang."""
        return len(self.gang.members)

    @cached_property
    def priority(self) -> int:
        """The gang's priority. It is not exact while a member's priority class is not resolved yet."""
        return self.gang.priority

    @cached_property
    def amounts(self) -> Amounts:
        """The least amounts that the whole gang needs, by resource. Empty if no lower bound is known (`_of_member`)."""
        return {name: self._needed * value for name, value in self._of_member.items() if value}

    @cached_property
    def needs(self) -> Sequence[Need]:
        """The needs of the whole gang and of each pod set. Empty if `amounts` is empty."""
        gang = self.gang
        if not self.amounts:
            return ()
        needs = [self._need(self._needed, gang.members, gang.required)]
        if not gang.succeeded and len(gang.pod_sets) > 1:
            for each in gang.pod_sets:
                members = [member for member in gang.members if member.pod_set == each.name]
                if each.min_count and members:
                    needs.append(self._need(each.min_count, members, each.required or gang.required))
        return tuple(needs)

    @staticmethod
    def _need(pods: int, members: Sequence[Member], level: str | None) -> Need:
        requests = _least(member.pod for member in members)
        return Need(
            pods, tuple(sorted(requests.items())), level, eligibility_classes_of(member.pod for member in members)
        )

    @cached_property
    def _needed(self) -> int:
        gang = self.gang
        if gang.succeeded:
            return gang.still_needed
        return max(gang.still_needed, sum(each.min_count for each in gang.pod_sets))

    @cached_property
    def _of_member(self) -> Amounts:
        """The least amounts that one member requests, by resource. Empty if there is no usable lower bound.

        It is empty if a member already has a node, if the gang is subject to a quota, or if its members differ in
        priority. It is also empty if a request cannot be parsed; planning reports such a request.
        """
        gang = self.gang
        if gang.queue or gang.account is not None or any(held_node(member.pod) for member in gang.members):
            return {}
        if len({member.pod.spec.priority for member in gang.members}) > 1:
            return {}
        try:
            return _least(member.pod for member in gang.members)
        except ValueError:
            return {}


def _least(pods: Iterable[Pod]) -> Amounts:
    """Return the smallest request of these pods for each resource, without zeros."""
    least: dict[str, int] | None = None
    for pod in pods:
        asked = pod_requests(pod)
        if least is None:
            least = asked
        elif least != asked:
            least = {name: min(value, asked.get(name, 0)) for name, value in least.items()}
    return {name: value for name, value in (least or {}).items() if value}
