"""The least that a gang needs: what counting holds against the room of a cluster."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from weakref import WeakValueDictionary

from cluster.node_state import Amounts
from controller.scheduling.node_choice import Chooser, choosers_of
from gangs.dialects.topologies import topology_of
from gangs.held_nodes import held_node
from gangs.model import Fault, Gang, Member
from kube.objects import Pod
from kube.requests import pod_requests
from kube.topology import Topology

Requests = tuple[tuple[str, int], ...]
"""Amounts by resource."""


def request_of(gang: Gang) -> object:
    """What the gang asks for, without what the controller itself writes on its members."""
    members = tuple((m.pod.metadata.uid, m.pod.spec, m.pod_set, m.index) for m in gang.members)
    return replace(gang, members=()), members


@dataclass(frozen=True, slots=True)
class Need:
    """So many pods, in one domain of a level or (None) wherever they are. Each asks for at least these amounts; each
    goes only where one of the choosers may go.
    """

    pods: int
    each: Requests
    level: str | None
    choosers: tuple[Chooser, ...]


@dataclass(frozen=True)
class Alike:
    """What gangs of one kind need: all that counting goes by. The same one for all of them (`Least.alike`), so that it
    is told from others by what it is and not by what it says.
    """

    priority: int
    amounts: Requests
    needs: Sequence[Need]

    __eq__ = object.__eq__
    __hash__ = object.__hash__


_ALIKE: WeakValueDictionary[tuple[int, Requests, Sequence[Need]], Alike] = WeakValueDictionary()
"""By what they say: those that any gang has."""


@dataclass(frozen=True)
class Least:
    """The least that a gang takes from the room of a cluster: nothing that is counted here can it do without."""

    gang: Gang

    @cached_property
    def alike(self) -> Alike:
        """What it needs, shared with all gangs that need the same."""
        said = self.priority, tuple(sorted(self.amounts.items())), self.needs
        found = _ALIKE.get(said)
        if found is None:
            found = _ALIKE[said] = Alike(*said)
        return found

    def topology(self, known: Sequence[Topology]) -> Topology | Fault | None:
        """The one that it is placed in; looked for anew where others are `known`, by what they are."""
        before = self.__dict__.get("_topology")
        if before is None or before[0] is not known:
            before = self.__dict__["_topology"] = known, topology_of(self.gang, known)
        found: Topology | Fault | None = before[1]
        return found

    @cached_property
    def members(self) -> int:
        """How many there are: what planning it costs."""
        return len(self.gang.members)

    @cached_property
    def priority(self) -> int:
        """As far as it is known: of a pod whose class nobody has looked up it is not."""
        return self.gang.priority

    @cached_property
    def amounts(self) -> Amounts:
        """By resource; empty where nothing can be said (`_uncertain`)."""
        return {name: self._needed * value for name, value in self._of_each.items() if value}

    @cached_property
    def needs(self) -> Sequence[Need]:
        """What it needs as a whole, and what each set needs; nothing where `amounts` is empty."""
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
        each = _least(member.pod for member in members)
        return Need(pods, tuple(sorted(each.items())), level, choosers_of(member.pod for member in members))

    @cached_property
    def _needed(self) -> int:
        gang = self.gang
        if gang.succeeded:
            return gang.still_needed
        return max(gang.still_needed, sum(each.min_count for each in gang.pod_sets))

    @cached_property
    def _of_each(self) -> Amounts:
        """Nothing where some of it is there already, or is counted against a quota in its turn; where the members
        differ in priority; and where a request cannot be read, which whoever plans the gang tells.
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
    """What each of them asks for at least, by resource, without zeros."""
    least: dict[str, int] | None = None
    for pod in pods:
        asked = pod_requests(pod)
        if least is None:
            least = asked
        elif least != asked:
            least = {name: min(value, asked.get(name, 0)) for name, value in least.items()}
    return {name: value for name, value in (least or {}).items() if value}
