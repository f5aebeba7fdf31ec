"""The gangs whose members a plan evicts, and the objects on which events report that to the gangs' users."""

from collections.abc import Iterable, Sequence

from controller.cluster_view import ClusterView
from controller.release.records import PlannedVictim
from controller.status.mirrors import GANG_KIND, GangObjects, is_mirrored, mirror_name
from gangs.model import Gang, GangKey, ObjectRef
from kube.keys import API_VERSION
from planning.framing.running_gangs import running_gangs


def evicted_gangs(
    victims: Iterable[PlannedVictim], cluster_view: ClusterView
) -> list[tuple[Gang, list[PlannedVictim]]]:
    """Return the running gangs to which these victims belong, each with its victims. Pods of no gang are left out."""
    gang_of = running_gangs(cluster_view.reading)
    found: dict[GangKey, list[PlannedVictim]] = {}
    for victim in victims:
        if (running := gang_of.get(f"{victim.namespace}/{victim.name}")) is not None:
            found.setdefault(running.key, []).append(victim)
    gangs = ((cluster_view.kept.gang(key), members) for key, members in found.items())
    return [(gang, members) for gang, members in gangs if gang is not None]


def objects_of(gang: Gang, cluster_view: ClusterView) -> Sequence[ObjectRef]:
    """Return the objects that get an event on the gang: its Gang object, and the workload or group that asked for it.

    Objects that do not exist are left out.
    """
    source = [gang.source] if gang.source.uid and gang.source.kind != "Pod" else []
    if not is_mirrored(gang):
        return source
    existing = GangObjects(cluster_view.sources.catalog)
    namespace, name = mirror_name(gang, existing)
    manifest = existing.at((namespace, name))
    uid = manifest["metadata"].get("uid", "") if manifest is not None else ""
    return [*([ObjectRef(API_VERSION, GANG_KIND, namespace, name, uid)] if uid else []), *source]
