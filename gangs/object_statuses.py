"""The status that a dialect computes for objects of its system: group objects, queues and topologies.

A dialect computes the status as a pure function of `StatusView` or `TopologyView`. The controller decides whether and
when the status is written (`controller.status.status_sync`). For a ceded dialect no status is computed, because its own
system writes it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gangs.manifests import group_of
from gangs.model import Gang, GangKey, ObjectRef
from gangs.sources import Sources
from kube.objects import Pod
from kube.topology import Topology

Status = dict[str, Any]
ResourceAmounts = Mapping[str, int]
"""By resource: an amount in the resource's base unit (`kube.quantities`)."""
DomainPath = tuple[str, ...]
"""The names of a domain and of the domains around it, the widest first; empty for the whole topology.

Example: ("block-1", "rack-3").
"""
QuotaUse = Mapping[tuple[str, str, str], int]
"""By (queue, flavor, resource): the used amount in the resource's base unit."""


@dataclass(frozen=True, slots=True)
class ObjectStatus:
    """The status that an object should have.

    `plural`: the resource name of its kind in the API path. `subresource`: whether the kind has the subresource
    `/status`; otherwise the status is written to the object itself.
    """

    ref: ObjectRef
    status: Status
    plural: str
    subresource: bool = True

    @property
    def path(self) -> str:
        """The API path to which the status is written."""
        within = f"namespaces/{self.ref.namespace}/" if self.ref.namespace else ""
        below = "/status" if self.subresource else ""
        return f"/apis/{self.ref.api_version}/{within}{self.plural}/{self.ref.name}{below}"


@dataclass(frozen=True, slots=True)
class GangObjectStatus:
    """The parts of a Gang object's status that a dialect reads. `no_room`: whether it reports a lack of capacity."""

    message: str = ""
    conditions: Sequence[Mapping[str, Any]] = ()
    no_room: bool = False


@dataclass(frozen=True, slots=True)
class StatusView:
    """The input from which a dialect computes the statuses of its group objects and queues.

    `now`: the time (RFC 3339), for conditions that change. `gangs`: all gangs of every dialect. `gang`: a function from
    a key to the gang; None if it does not exist. `finished`: a function from a gang's key to its pods that have ended
    and still exist, which are not members any more. `gang_object`: a function from a gang's key to the status of its
    Gang object.
    """

    sources: Sources
    now: str
    gangs: Sequence[Gang]
    gang: Callable[[GangKey], Gang | None]
    finished: Callable[[GangKey], Sequence[Pod]]
    gang_object: Callable[[GangKey], GangObjectStatus]

    def status_of(self, ref: ObjectRef) -> Mapping[str, Any]:
        """Return the current status of an object; empty if there is none."""
        manifest = self.sources.get(group_of(ref.api_version), ref.kind, ref.namespace, ref.name) or {}
        return manifest.get("status") or {}


@dataclass(frozen=True, slots=True)
class TopologyView:
    """The nodes and domains of one topology and their free capacity, from which a dialect computes its status.

    `path_of`: by node name, the names of its domains, the widest first. `outside`: by name of a node that is in no
    domain, the label that it lacks. `counts`: by domain above the node level, the number of its nodes; parents come
    first. `free_under`: a function that returns the free capacity of each domain in `counts`, and of the whole topology
    under the empty path. `free_on`: a function from a node name to its free capacity.
    """

    topology: Topology
    path_of: Mapping[str, DomainPath]
    outside: Mapping[str, str]
    counts: Mapping[DomainPath, int]
    free_under: Callable[[], Mapping[DomainPath, ResourceAmounts]]
    free_on: Callable[[str], ResourceAmounts]
