"""The condition `Active` of ClusterQueues and LocalQueues: whether a queue admits gangs, and why not."""

from dataclasses import dataclass

from gangs.kueue import keys, queues
from gangs.manifests import ref_of
from gangs.model import Manifest
from gangs.sources import Sources

READY = "Ready"


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a queue: whether it admits gangs, and if not, why. `reason` is one of the reasons of Kueue's
    condition `Active`.
    """

    reason: str = READY
    message: str = ""

    @property
    def active(self) -> bool:
        """Whether the queue admits gangs."""
        return self.reason == READY


def of_cluster_queue(manifest: Manifest, sources: Sources) -> Standing:
    """Return whether a ClusterQueue admits gangs.

    It does not if it is invalid or stopped, or if one of its flavors, or the topology of a flavor, is missing or
    invalid.
    """
    spec = queues.valid(manifest, queues.ClusterQueueSpec)
    if spec is None:
        return Standing("Invalid", "cannot admit gangs: its spec is wrong")
    if queues.stopped(spec.stop_policy):
        return Standing("Stopped", "cannot admit gangs: it is stopped (spec.stopPolicy)")
    missing = queues.missing_of(manifest, spec, sources)
    for kind, reason in ((keys.FLAVOR, "FlavorNotFound"), (keys.TOPOLOGY, "TopologyNotFound")):
        names = [f"{kind} {name}" for missing_kind, name in missing if missing_kind == kind]
        if names:
            return Standing(reason, f"cannot admit gangs: {', '.join(names)} does not exist")
    return Standing(message="can admit gangs")


def of_local_queue(manifest: Manifest, sources: Sources) -> Standing:
    """Return whether a LocalQueue admits gangs. It does if it is valid and not stopped, and its ClusterQueue does."""
    spec = queues.valid(manifest, queues.LocalQueueSpec)
    if spec is None:
        return Standing("Invalid", "cannot take gangs: its spec is wrong")
    if queues.stopped(spec.stop_policy):
        return Standing("Stopped", "cannot take gangs: it is stopped (spec.stopPolicy)")
    target = sources.get(keys.GROUP, keys.CLUSTER_QUEUE, "", spec.cluster_queue)
    if target is None:
        return Standing("ClusterQueueDoesNotExist", f"{keys.CLUSTER_QUEUE} {spec.cluster_queue} does not exist")
    above = of_cluster_queue(target, sources)
    if not above.active:
        return Standing("ClusterQueueIsInactive", f"{keys.CLUSTER_QUEUE} {ref_of(target).name} {above.message}")
    return Standing(message="can take gangs")
