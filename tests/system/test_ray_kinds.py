"""A RayJob and a RayService by Phalanx's keys and others': KubeRay's own operator creates the cluster, the gang.

Racks r1: n0 … n3, r2: n4 … n6. A pod fills a node, so that a cluster of four fits in r1 alone.
"""

import pytest
import yaml
from asking import DIALECTS, dialects, too_many
from replaced import delete_and_await_nothing, delete_and_await_successor
from system import Object, Phalanx
from two_racks import apply_two_racks
from workload_operators import ROWS

from controlplane.recording import bound

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("kuberay"), pytest.mark.long]

R1 = ["n0", "n1", "n2", "n3"]
KINDS = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}
"""Where each has the cluster."""


@pytest.fixture
def racks(phalanx: Phalanx, dialect: str) -> Phalanx:
    """Seven nodes in two racks, and a topology over them."""
    return apply_two_racks(phalanx, 7, dialect)


def workload(kind: str, dialect: str, workers: int) -> Object:
    """Return a workload with a cluster of a head and so many workers in one rack."""
    cluster = yaml.safe_load(yaml.safe_dump(ROWS["RayCluster"].spec()).replace("cpu: '1'", "cpu: '6'"))
    cluster["workerGroupSpecs"][0] |= {"replicas": workers, "maxReplicas": workers}
    more = {"entrypoint": "python x.py"} if kind == "RayJob" else {}
    metadata = {"name": "w", "namespace": "default"}
    found = {"apiVersion": "ray.io/v1", "kind": kind, "metadata": metadata, "spec": {KINDS[kind]: cluster, **more}}
    DIALECTS[dialect](found)
    return found


def in_cluster(pod: Object) -> bool:
    """Whether a pod is one of the cluster's: a RayJob has a submitter, too."""
    return "ray.io/node-type" in pod["metadata"].get("labels", {})


def of_cluster(phalanx: Phalanx) -> list[Object]:
    """The pods of the cluster."""
    return list(filter(in_cluster, phalanx.pods()))


def gangs(phalanx: Phalanx) -> list[Object]:
    """All Gang objects."""
    found: list[Object] = phalanx.cluster.request("GET", "/apis/phalanx.dev/v1alpha1/gangs")["items"]
    return found


@dialects
@pytest.mark.parametrize("kind", KINDS)
def test_its_cluster_starts_whole_is_mended_and_goes_with_it(racks: Phalanx, kind: str, dialect: str) -> None:
    with racks.record() as recorder:
        racks.apply_once_told("4 pods fit in r1: n0..3, proven optimal", workload(kind, dialect, 3))
        racks.wait(lambda: sorted(each["spec"].get("nodeName", "") for each in of_cluster(racks)) == R1, "all bound")
        events = [each for each in recorder.events if in_cluster(each.object)]
    complete = [number for number, event in enumerate(events) if event.type == "ADDED"][3]
    assert not any(bound(event) for event in events[:complete])
    (gang,) = gangs(racks)
    assert gang["metadata"]["ownerReferences"][0]["kind"] == "RayCluster"
    worker = next(each for each in of_cluster(racks) if each["metadata"]["labels"]["ray.io/node-type"] == "worker")
    delete_and_await_successor(racks, worker, R1, in_cluster)
    delete_and_await_nothing(racks, lambda: racks.cluster.kubectl("delete", kind.lower(), "w", "--wait=false"))


@dialects
@pytest.mark.parametrize("kind", KINDS)
def test_one_worker_too_many_and_none_starts(racks: Phalanx, kind: str, dialect: str) -> None:
    wanted = workload(kind, dialect, 4)
    racks.apply_once_told(too_many(dialect), wanted)
    racks.wait(lambda: len(of_cluster(racks)) == 5 and bool(gangs(racks)), "all pods to be made")
    racks.await_phase(gangs(racks)[0]["metadata"]["name"], "Unplaceable")
    assert all(each["spec"]["schedulingGates"] for each in of_cluster(racks))
    racks.cluster.kubectl("delete", kind.lower(), "w", "--wait=false")
    racks.wait(lambda: not gangs(racks) and not of_cluster(racks), "the gang and its pods to go")
