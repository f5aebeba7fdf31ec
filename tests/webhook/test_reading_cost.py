"""The cost of reading all gangs grows linearly with the cluster, not with its square.

The cost is the number of passes over the pods.
"""

from collections.abc import Iterator

import msgspec
import pytest
from crowds import NAMESPACE, WAYS, Way, crowd, pod_of_job
from function_calls import function_calls
from local_api.direct import DirectTransport
from local_api.server import LocalApi

from cluster.caches.cache import ClusterCache
from gangs.dialects.concerned import places_of
from gangs.dialects.expanding import expanded
from gangs.dialects.protection import protection
from gangs.dialects.reviewing import review
from gangs.dialects.table import DIALECTS, all_kinds
from gangs.manifests import pod_of
from gangs.sources import Sources
from kube.objects import Pod

MOST = 6
"""The most passes over all pods that one reading may make."""


class Looked(list[Pod]):
    """A list of pods that counts the passes over it."""

    times = 0

    def __iter__(self) -> Iterator[Pod]:
        self.times += 1
        return super().__iter__()


def running(way: Way, gangs: int) -> tuple[Sources, Looked]:
    """Return the objects of so many gangs with one pod each, and their counted pods."""
    objects = crowd(way, gangs).objects
    jobs = (objects["batch", "Job", NAMESPACE, f"gang-{number}"] for number in range(gangs))
    pods = Looked(pod_of(pod_of_job(job, 0)) for job in jobs)
    return Sources(pods, objects), pods


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_pods_are_gone_through_as_often_for_many_gangs_as_for_few(way: Way) -> None:
    (dialect,) = (each for each in DIALECTS if each.name == way.dialect)
    times = []
    for gangs in (4, 40):
        sources, pods = running(way, gangs)
        reading = dialect.read(sources, ())
        assert len(reading.gangs) + len(reading.faults) >= gangs // 2
        times.append(pods.times)
    assert times[0] == times[1] <= MOST


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_an_object_is_checked_in_a_few_looks_at_the_pods_whatever_dialects_there_are(way: Way) -> None:
    sources, pods = running(way, 40)
    for manifest in way.objects(0):
        pods.times = 0
        review(manifest, sources)
        assert pods.times <= MOST, manifest["kind"]


def test_so_it_is_when_the_pods_are_made_that_gangs_lack() -> None:
    times = []
    for gangs in (4, 40):
        sources, pods = running(WAYS["a Job of our own"], gangs)
        whole, _ = expanded(sources)
        assert len(whole.pods) == 4 * gangs
        times.append(pods.times)
    assert times[0] == times[1]


def test_a_watch_event_of_a_pod_of_no_gang_takes_few_function_calls() -> None:
    """Each change of each pod of a cluster reaches the caches.

    An event takes 246 calls if each dialect is asked about the pod, and if generators take the cache's lock. It takes
    172 if equal parts of the version before are trimmed again.
    """
    transport = DirectTransport(LocalApi())
    cache = ClusterCache(transport, all_kinds(), protecting=protection, groups_of=places_of)
    pods = next(each for each in cache.reflectors if each.name == "/api/v1/pods")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5f7", "uid": "u1", "controller": True}
    requests = {"cpu": "100m", "memory": "200Mi"}

    def event(version: int) -> bytes:
        labels = {"app": "web", "pod-template-hash": "5f7"}
        metadata = {"name": "web-5f7-abcde", "namespace": "default", "uid": "u2", "resourceVersion": str(version)}
        spec = {
            "containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
            "nodeName": f"node-{version}",
        }
        pod = {"metadata": {**metadata, "labels": labels, "ownerReferences": [owner]}, "spec": spec}
        return msgspec.json.encode({"type": "MODIFIED", "object": pod})

    pods.take(event(1))
    assert function_calls(lambda: pods.take(event(2))) < 165
    assert cache.pods()[0].spec.node_name == "node-2"
