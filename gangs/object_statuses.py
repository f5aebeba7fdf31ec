"""What dialects show on the objects of their own systems: of gangs, of queues, of topologies.

A dialect says what the status of an object should be, as a pure function of what is handed in here; whether that has to
be written, when and how often, is the controller's business (`controller.status.status_sync`). A dialect that is left
to its own system is not asked; one without objects to show anything on has none of these methods.
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
Amounts = Mapping[str, int]
"""By resource, in its base unit (`kube.quantities`)."""
DomainPath = tuple[str, ...]
"""Names of domains from the widest level down; the whole topology has the empty path."""
QuotaUse = Mapping[tuple[str, str, str], int]
"""By queue, flavor and resource: an amount in base units."""


@dataclass(frozen=True, slots=True)
class ObjectStatus:
    """The status that an object should have.

    `plural`: of its kind. `subresource`: whether its definition has the status apart; else it is a field of the object.
    """

    ref: ObjectRef
    status: Status
    plural: str
    subresource: bool = True

    @property
    def path(self) -> str:
        """Where it is written."""
        within = f"namespaces/{self.ref.namespace}/" if self.ref.namespace else ""
        below = "/status" if self.subresource else ""
        return f"/apis/{self.ref.api_version}/{within}{self.plural}/{self.ref.name}{below}"


@dataclass(frozen=True, slots=True)
class GangObjectStatus:
    """What a gang's Gang object says of it. `no_room`: whether it is that there is no place for it."""

    message: str = ""
    conditions: Sequence[Mapping[str, Any]] = ()
    no_room: bool = False


@dataclass(frozen=True, slots=True)
class StatusView:
    """What a dialect may look at to say what its objects show.

    `now`: RFC 3339, for what changes with this status. `gangs`: all of them, of every dialect. `gang`: the one of a
    key, None where there is none (any more). `finished`: its pods that have ended and still exist; they are no members
    any more. `gang_object`: what its Gang object says.
    """

    sources: Sources
    now: str
    gangs: Sequence[Gang]
    gang: Callable[[GangKey], Gang | None]
    finished: Callable[[GangKey], Sequence[Pod]]
    gang_object: Callable[[GangKey], GangObjectStatus]

    def status_of(self, ref: ObjectRef) -> Mapping[str, Any]:
        """The status of an object as it is; empty where there is none."""
        manifest = self.sources.get(group_of(ref.api_version), ref.kind, ref.namespace, ref.name) or {}
        return manifest.get("status") or {}


@dataclass(frozen=True, slots=True)
class TopologyView:
    """The nodes of the cluster as they lie in a topology, and the room that is free there.

    `path_of`: by node the path of the domains that it is in, in the order of the tree. `outside`: by node that is in
    none, the label that it lacks. `counts`: nodes under every domain above the nodes, parents first. `free_under`: the
    room under each of these, and under the empty path. `free_on`: that on one node.
    """

    topology: Topology
    path_of: Mapping[str, DomainPath]
    outside: Mapping[str, str]
    counts: Mapping[DomainPath, int]
    free_under: Callable[[], Mapping[DomainPath, Amounts]]
    free_on: Callable[[str], Amounts]
