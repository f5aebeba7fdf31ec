"""The operator of LeaderWorkerSets, with the StatefulSets that it creates: groups of a leader and its workers.

The rules are those of LeaderWorkerSet 0.9 (pkg/controllers/pod_controller.go). The leaders' StatefulSet is `Parallel`
and recreates a leader under its name. The operator creates the workers of a group when the leader exists, or with
`LeaderReady` when it is ready. If a pod of the group is deleted, the operator deletes the leader in the foreground, so
that the leader ends after its workers (`handleRestartPolicy`). If the leader itself is deleted, the garbage collector
deletes the workers of the old leader. A worker is recreated under its name, so only when the old one is gone.
"""

from collections.abc import Mapping
from contextlib import suppress

from local_api.resources import RESOURCES
from local_api.store import Object, RefusedError

from gangs.dialects.templates import as_admitted
from gangs.sources import Sources
from simulation.models.workloads import PODS_PATH, WorkloadController, pod_template
from simulation.objects import GROUP_LABEL, LEADER_WORKER_SET_LABEL, is_finished, is_ready, is_terminating

LEADER_WORKER_SETS = next(each for each in RESOURCES if each.plural == "leaderworkersets")
LEADER_WORKER_SETS_PATH = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/default/leaderworkersets"
READY, CREATED = "LeaderReady", "LeaderCreated"
FOREGROUND = "foregroundDeletion"
"""The finalizer of an object that ends after its dependents."""
_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
_POD_INDEX = "apps.kubernetes.io/pod-index"
_LEADER, _SET = "simulation/leader", "simulation/set"
"""Annotations, in place of StatefulSets: the UID of the leader whose worker a pod is, and of the LeaderWorkerSet."""
_MERGE = "application/merge-patch+json"


def leader_worker_set(
    name: str, groups: int, size: int, *, startup: str = READY, cpu: int = 4, priority: str = "", **annotations: str
) -> Object:
    """A LeaderWorkerSet each of whose groups is a gang in one rack, as admission changes it."""
    said = {"phalanx.dev/gang": "true", "phalanx.dev/required": "rack", **annotations}
    parts = {"size": size, "restartPolicy": "RecreateGroupOnPodRestart"}
    templates = {"leaderTemplate": pod_template(cpu, priority), "workerTemplate": pod_template(cpu, priority)}
    spec = {"replicas": groups, "startupPolicy": startup, "leaderWorkerTemplate": {**parts, **templates}}
    metadata = {"name": name, "namespace": "default", "annotations": said}
    kind = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"}
    return dict(as_admitted({**kind, "metadata": metadata, "spec": spec}, Sources()))


class LeaderWorkerSetController(WorkloadController):
    """Creates, deletes and restarts groups."""

    resource = LEADER_WORKER_SETS

    def reconcile(self, workload: Object, pods: list[Object]) -> None:
        """Act on each group as far as its pods allow now."""
        groups = {str(group): list[Object]() for group in range(int(workload["spec"]["replicas"]))}
        for pod in pods:
            groups.setdefault(pod["metadata"]["labels"][GROUP_LABEL], []).append(pod)
        for group, members in sorted(groups.items()):
            leader = next((pod for pod in members if _index(pod) == 0), None)
            workers = {_index(pod): pod for pod in members if _index(pod)}
            if int(group) >= int(workload["spec"]["replicas"]):
                self._end([pod for pod in members if not is_terminating(pod)])
            else:
                self._reconcile_group(workload, group, leader, workers)

    def _reconcile_group(
        self, workload: Object, group: str, leader: Object | None, workers: Mapping[int, Object]
    ) -> None:
        if leader is None or is_terminating(leader):
            self._end([pod for pod in workers.values() if not is_terminating(pod)])
            if leader is None:
                self._create(workload, group, 0, "")
            elif not workers and FOREGROUND in (leader["metadata"].get("finalizers") or ()):
                self._release(leader)
            return
        uid, size = leader["metadata"]["uid"], int(workload["spec"]["leaderWorkerTemplate"]["size"])
        own = {index: pod for index, pod in workers.items() if pod["metadata"]["annotations"][_LEADER] == uid}
        self._end([pod for index, pod in workers.items() if index not in own and not is_terminating(pod)])
        if any(is_terminating(pod) or is_finished(pod) for pod in (leader, *own.values())):
            self._end_in_foreground(leader)
            return
        if workload["spec"]["startupPolicy"] == CREATED or is_ready(leader):
            for index in range(1, size):
                if index not in workers:
                    self._create(workload, group, index, uid)

    def _create(self, workload: Object, group: str, index: int, leader: str) -> None:
        name, parts = f"{workload['metadata']['name']}-{group}", workload["spec"]["leaderWorkerTemplate"]
        template = parts["workerTemplate"] if index else parts["leaderTemplate"]
        own = {LEADER_WORKER_SET_LABEL: workload["metadata"]["name"], GROUP_LABEL: group, _INDEX: str(index)}
        place = {_POD_INDEX: str(index or group)}
        by = name if index else workload["metadata"]["name"]
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": by, "uid": leader or "leaders"}
        metadata = {
            "name": f"{name}-{index}" if index else name,
            "namespace": "default",
            "labels": {**template["metadata"].get("labels", {}), **own, **place},
            "annotations": {
                **template["metadata"].get("annotations", {}),
                _LEADER: leader,
                _SET: workload["metadata"]["uid"],
            },
            "ownerReferences": [{**owner, "controller": True}],
        }
        pod = {"metadata": metadata, "spec": template["spec"]}
        self.create(pod, lambda: self._wake(workload["metadata"]["name"]))

    def _end(self, pods: list[Object]) -> None:
        for pod in pods:
            self.delete(pod)

    def _end_in_foreground(self, leader: Object) -> None:
        path = f"{PODS_PATH}/{leader['metadata']['name']}"
        finalizers = [*(leader["metadata"].get("finalizers") or ()), FOREGROUND]
        with suppress(RefusedError):
            self.api.ask("PATCH", path, {"metadata": {"finalizers": finalizers}}, _MERGE)
            self.delete(leader)

    def _release(self, leader: Object) -> None:
        kept = [each for each in leader["metadata"]["finalizers"] if each != FOREGROUND]
        with suppress(RefusedError):
            path = f"{PODS_PATH}/{leader['metadata']['name']}"
            self.api.ask("PATCH", path, {"metadata": {"finalizers": kept or None}}, _MERGE)

    def _owners(self, thing: Object) -> list[Object]:
        """Return the LeaderWorkerSet of a pod, although a StatefulSet owns the pod, or the owners of a Gang."""
        annotations = thing["metadata"].get("annotations") or {}
        if _SET in annotations:
            return [{"name": thing["metadata"]["labels"][LEADER_WORKER_SET_LABEL], "uid": annotations[_SET]}]
        return super()._owners(thing)


def _index(pod: Object) -> int:
    """Return the pod's index in its group; 0 for the leader."""
    return int(pod["metadata"]["labels"][_INDEX])
