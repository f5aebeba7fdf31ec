"""The quota of pods that their operator deletes and recreates: no other gang gets it in between.

r1: n1, n2      r2: n3      each node holds one pod of 4 cpu; the quota of queue q is 8 cpu
"""

from time import sleep
from typing import Any

import pytest
from controller_scene import PODS, Scene, leading, member
from local_api.store import Object
from workload_operators import ROWS

from gangs.dialects.templates import as_admitted
from gangs.sources import Sources
from kube.keys import DIALECT, GATE

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
JOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
QUEUE = {"kueue.x-k8s.io/queue-name": "q"}
NAMES = ("w-master-0", "w-worker-0")
_DEATH = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 30}
MEANWHILE = 1.5
"""Seconds between the old pods and the new ones, in which another gang could take the quota."""
FULL = "waits for quota: the gang needs 4 cpu, and flavor any of ClusterQueue pool has 0 of 8 left"


def furnish(scene: Scene) -> None:
    """The queue."""
    scene.api.create(f"{KUEUE}/resourceflavors", {"metadata": {"name": "any"}, "spec": {}})
    quota = {"name": "any", "resources": [{"name": "cpu", "nominalQuota": 8}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
    pool = {"namespaceSelector": {}, "resourceGroups": groups}
    scene.api.create(f"{KUEUE}/clusterqueues", {"metadata": {"name": "pool"}, "spec": pool})
    queue = {"metadata": {"name": "q"}, "spec": {"clusterQueue": "pool"}}
    scene.api.create(f"{KUEUE}/namespaces/default/localqueues", queue)


class Training:
    """A PyTorchJob of two pods in the queue, and the objects that its operator creates."""

    def __init__(self, scene: Scene) -> None:
        self._scene, self._row = scene, ROWS["PyTorchJob"]
        manifest: Any = self._row.manifest()
        manifest["metadata"]["labels"] = dict(QUEUE)
        manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 1
        self._stored = scene.api.ask("POST", JOBS, as_admitted(manifest, Sources()))

    def make(self, *names: str) -> None:
        """The operator makes these pods."""
        for pod in self._row.pods(self._stored):
            if pod["metadata"]["name"] in names:
                pod["metadata"]["labels"] |= QUEUE | {DIALECT: "kueue"}
                pod["spec"]["schedulingGates"] = [{"name": GATE}]
                pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "4"
                self._scene.api.ask("POST", PODS, pod)

    def delete(self, *names: str) -> None:
        """Begin the deletion of these pods."""
        for name in names:
            self._scene.api.ask("DELETE", f"{PODS}/{name}", _DEATH)


def rival() -> Object:
    """Return a pod that is a gang of its own in the queue, and older than the recreated pods; n3 could hold it."""
    found = member("z", "")
    found["metadata"]["labels"] = QUEUE | {DIALECT: "kueue"}
    return found


@pytest.mark.parametrize("lost", [NAMES, NAMES[1:]], ids=["all", "one"])
def test_quota_of_lost_members_is_not_given_away(scene: Scene, lost: tuple[str, ...]) -> None:
    furnish(scene)
    with leading(scene):
        training = Training(scene)
        training.make(*NAMES)
        scene.finish(*NAMES)
        scene.api.create(PODS, rival())
        scene.api.wait(lambda: scene.status("z").get("message", "").startswith(FULL), "the rival to wait for quota")
        training.delete(*lost)
        for name in lost:
            scene.gone(name)
        sleep(MEANWHILE)
        assert scene.nominated("z") == [""]
        assert scene.status("z")["message"].startswith(FULL)
        training.make(*lost)
        scene.finish(*lost)
        assert scene.status("z")["message"].startswith(FULL)
