"""One look at the cluster: what is asked for and what there is, at one instant, for one round of the controller."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cluster.cache import ClusterCache
from cluster.snapshot import Snapshot
from gangs.dialects import dialect_of, left_alone, read_all, topologies
from gangs.leaving import NOTHING, Left
from gangs.model import Fault, GangKey, Manifest, Reading
from gangs.sources import Sources
from kube.keys import GROUP
from kube.objects import Pod
from kube.topology import Topology

ObjectName = tuple[str, str]
"""(namespace, name)."""


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything a round decides on.

    `live`: every pod that exists and has not finished, by uid. `gang_objects`: the Gang objects, own and mirrored.
    """

    sources: Sources
    reading: Reading
    topologies: Sequence[Topology]
    faults: Sequence[Fault]
    snapshot: Snapshot
    live: Mapping[str, Pod]
    gang_objects: Mapping[ObjectName, Manifest]
    unreadable: frozenset[GangKey] = frozenset()
    """Gangs that pods name but that contradict themselves, so that they could not be read."""
    left: Left = NOTHING
    """What is left to other systems that run in the cluster."""
    ending: frozenset[str] = frozenset()
    """Namespaces that are being deleted: nothing can be made there any more."""


def look(cache: ClusterCache) -> Picture:
    """Take one consistent picture from the watch caches."""
    with cache.still():
        sources = Sources(cache.pods(), cache.objects(), cache.namespaces(), cache.found())
        snapshot, ending = cache.snapshot(), cache.ending()
    found, faults = topologies(sources)
    reading = read_all(sources)
    left = left_alone(sources)
    named = {claim[1] for pod in sources.pods if not pod.finished and (claim := dialect_of(pod, left)) is not None}
    return Picture(
        sources=sources,
        reading=reading,
        topologies=found,
        faults=faults,
        snapshot=snapshot,
        live={pod.metadata.uid: pod for pod in sources.pods if not pod.finished},
        gang_objects={
            (manifest["metadata"]["namespace"], manifest["metadata"]["name"]): manifest
            for manifest in sources.of_kind(GROUP, "Gang")
        },
        unreadable=frozenset(named - {key for gang in reading.gangs for key in gang.names}),
        left=left,
        ending=ending,
    )
