"""A watch cache that a test feeds by hand: nothing is watched."""

from kubernetes.client import ApiClient, Configuration

from cluster.api.transport import Transport
from cluster.caches.cache import ClusterCache
from gangs.dialects.table import all_kinds
from kube.objects import Node, Pod


class FedCache(ClusterCache):
    """Holds what it is given."""

    def __init__(self) -> None:
        super().__init__(Transport(ApiClient(Configuration())), all_kinds())
        self._gangs = self._manifests.of("phalanx.dev", "Gang")
        self._jobs = self._manifests.of("batch", "Job")

    def put(self, pod: Pod) -> None:
        """A pod is new or has changed."""
        self._pods.put(pod)

    def put_node(self, node: Node) -> None:
        """A node is new or has changed."""
        self._nodes.put(node)

    def put_gang(self, manifest: dict[str, object]) -> None:
        """A Gang object is new or has changed."""
        self._gangs.put(manifest)

    def put_job(self, manifest: dict[str, object]) -> None:
        """A Job is new or has changed."""
        self._jobs.put(manifest)
