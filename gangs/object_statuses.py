"""Statuses that dialects compute for the objects of their own systems: gangs, queues and topologies.

A dialect computes the wanted status of an object as a pure function of the views in this module. The controller decides
whether and when a status is written (`controller.status.status_sync`). A ceded dialect is not called. A dialect without
objects that have a status has none of these methods.
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
"""Amounts by resource, in the resource's base unit (`kube.quantities`)."""
DomainPath = tuple[str, ...]
"""Names of domains from the widest level down; the whole topology has the empty path."""
QuotaUse = Mapping[tuple[str, str, str], int]
"""Amounts by queue, flavor and resource, in base units."""


@dataclass(frozen=True, slots=True)
class ObjectStatus:
    """The status that an object should have.

    `plural`: of its kind. `subresource`: whether the status is a subresource; otherwise it is a field of the object.
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
    """The status of a gang's Gang object. `no_room`: whether it reports a lack of capacity."""

    message: str = ""
    conditions: Sequence[Mapping[str, Any]] = ()
    no_room: bool = False


@dataclass(frozen=True, slots=True)
class StatusView:
    """The inputs from which a dialect computes statuses.

    `now`: RFC 3339 time, for conditions that change with this status. `gangs`: all gangs of every dialect. `gang`:
    returns the gang of a key; None if there is none (any more). `finished`: returns a gang's pods that have ended and
    still exist; they are no members any more. `gang_object`: returns the status of a gang's Gang object.
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
    """The nodes of the cluster in a topology, and their free capacity.

    `path_of`: by node, the path of its domains, in the order of the tree. `outside`: by node that is in no domain, the
    label that it lacks. `counts`: by domain above the nodes, the number of its nodes, parents first. `free_under`:
    returns the free capacity of each of these domains, and of the whole topology at the empty path. `free_on`: returns
    the free capacity of one node.
    """

    topology: Topology
    path_of: Mapping[str, DomainPath]
    outside: Mapping[str, str]
    counts: Mapping[DomainPath, int]
    free_under: Callable[[], Mapping[DomainPath, ResourceAmounts]]
    free_on: Callable[[str], ResourceAmounts]
