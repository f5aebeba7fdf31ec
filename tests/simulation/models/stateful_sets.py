"""The StatefulSet controller: pods with ordinals, created in order or all at once, recreated under their names.

The rules are those of Kubernetes 1.37, pkg/controller/statefulset/stateful_set_control.go. It handles
the ordinals from 0 up. With `OrderedReady` it stops at the first pod that is new, not ready or terminating
(`processReplica`). With `Parallel` it stops at none. A pod that has ended is deleted. A lost pod is
recreated under its name, so only when the old one is gone. Pods beyond `replicas` are deleted from the highest ordinal
down (`processCondemned`): one after another with `OrderedReady`.
"""

from local_api.resources import RESOURCES
from local_api.store import Object

from gangs.dialects.templates import as_admitted
from gangs.sources import Sources
from simulation.models.workloads import WorkloadController, pod_template
from simulation.objects import LEADER_WORKER_SET_LABEL, is_finished, is_ready, is_terminating

STATEFUL_SETS = next(each for each in RESOURCES if each.plural == "statefulsets")
STATEFUL_SETS_PATH = "/apis/apps/v1/namespaces/default/statefulsets"
ORDERED, PARALLEL = "OrderedReady", "Parallel"


def stateful_set(
    name: str, pods: int, *, policy: str = ORDERED, cpu: int = 4, priority: str = "", **annotations: str
) -> Object:
    """A StatefulSet whose annotations make it a gang in one rack, as admission lets it in."""
    said = {"phalanx.dev/gang": "true", "phalanx.dev/required": "rack", **annotations}
    template = pod_template(cpu, priority)
    template["metadata"]["labels"] = {"app": name}
    spec = {
        "replicas": pods,
        "podManagementPolicy": policy,
        "selector": {"matchLabels": {"app": name}},
        "serviceName": name,
        "template": template,
    }
    metadata = {"name": name, "namespace": "default", "annotations": said}
    manifest = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}
    return dict(as_admitted(manifest, Sources()))


class StatefulSetController(WorkloadController):
    """Creates the pods of StatefulSets."""

    resource = STATEFUL_SETS

    def reconcile(self, workload: Object, pods: list[Object]) -> None:
        """Create missing pods, and delete ended and superfluous ones, as far as the policy allows now."""
        ordered, replicas = is_ordered(workload), int(workload["spec"]["replicas"])
        there = {_ordinal(pod): pod for pod in pods}
        for ordinal in range(replicas):
            pod = there.get(ordinal)
            if pod is None:
                self._create(workload, ordinal)
            elif is_finished(pod) and not is_terminating(pod):
                self.delete(pod)
            if ordered and (pod is None or is_terminating(pod) or not is_ready(pod)):
                return
        for ordinal in sorted((each for each in there if each >= replicas), reverse=True):
            if not is_terminating(there[ordinal]):
                self.delete(there[ordinal])
            if ordered:
                return

    def _owners(self, thing: Object) -> list[Object]:
        """Return the StatefulSets that own an object; none for a pod of a LeaderWorkerSet (`leader_worker_sets`)."""
        labels = thing["metadata"].get("labels") or {}
        return [] if LEADER_WORKER_SET_LABEL in labels else super()._owners(thing)

    def _create(self, workload: Object, ordinal: int) -> None:
        name = f"{workload['metadata']['name']}-{ordinal}"
        labels = {"apps.kubernetes.io/pod-index": str(ordinal), "statefulset.kubernetes.io/pod-name": name}
        self.make(workload, {"name": name}, labels, {})


def is_ordered(workload: Object) -> bool:
    """Return whether a StatefulSet creates a pod only when all before it are ready."""
    return bool(workload["spec"].get("podManagementPolicy", ORDERED) == ORDERED)


def _ordinal(pod: Object) -> int:
    return int(pod["metadata"]["name"].rpartition("-")[2])
