"""A SparkApplication on a real control plane: the driver starts, and capacity is reserved for its executors.

Spark and its operator do not run here. The test creates their objects in their order (`workload_operators`): the driver
as the operator does, and the executors as the driver does, whose pod is their owner. Racks r1: n0 … n3, r2: n4 … n6.
"""

from collections.abc import Iterator

import pytest
import yaml
from asking import DIALECTS, dialects
from foreign_kinds import served
from system import Object, Phalanx
from two_racks import apply_two_racks
from workload_operators import made, spark_application, template

from controlplane.control_plane import ControlPlane
from kube.keys import SYSTEM_NAMESPACE
from kube.placeholders import PLACEHOLDER

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

ROW = spark_application()
R1 = {"n0", "n1", "n2", "n3"}
PATH = "/apis/sparkoperator.k8s.io/v1beta2/namespaces/default/sparkapplications/w"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def kind(control_plane: ControlPlane) -> Iterator[None]:
    """SparkApplications, gone when the module's tests are over."""
    with served(control_plane, {(ROW.group, ROW.kind): ROW.version}):
        yield


@pytest.fixture
def racks(phalanx: Phalanx, kind: None, dialect: str) -> Phalanx:
    """Seven nodes in two racks, and a topology over them."""
    del kind
    return apply_two_racks(phalanx, 7, dialect)


def filling(dialect: str) -> Object:
    """With pods of which each fills a node, all in one rack."""
    found: Object = yaml.safe_load(yaml.safe_dump(ROW.manifest()).replace("coreRequest: '1'", "coreRequest: '6'"))
    DIALECTS[dialect](found)
    return found


def running(phalanx: Phalanx) -> dict[str, str]:
    """Where the pods that have nodes are."""
    pods = ((each["metadata"]["name"], each["spec"].get("nodeName", "")) for each in phalanx.pods())
    return {name: node for name, node in pods if node}


def held(phalanx: Phalanx) -> list[Object]:
    """Return the placeholders."""
    items = phalanx.cluster.request("GET", f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods")["items"]
    return [each for each in items if PLACEHOLDER in each["metadata"].get("labels", {})]


def make(phalanx: Phalanx, pod: Object) -> Object:
    """Create a pod."""
    answer: Object = phalanx.cluster.request("POST", PODS, pod)
    assert answer["kind"] == "Pod", answer
    return answer


@dialects
def test_the_driver_starts_and_its_executors_run_where_room_was_held(racks: Phalanx, dialect: str) -> None:
    by_label = ROW.manifest()
    by_label["spec"]["executor"]["labels"] = {"kueue.x-k8s.io/queue-name": "nobody"}
    answer = racks.cluster.kubectl_result("apply", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(by_label))
    assert "spec.executor.labels" in answer.stderr, answer.stderr

    told = "gang default/w: 4 pods fit in r1: n0..3"
    racks.apply_once_told(told, filling(dialect))
    workload = racks.cluster.request("GET", PATH)
    assert workload["spec"]["executor"]["labels"]["phalanx.dev/pod-set"] == "executor"
    driver, *executors = ROW.pods(workload)
    uid = make(racks, driver)["metadata"]["uid"]
    racks.wait(lambda: racks.status("w").get("reason") == "PodsToCome", "the driver to run and room to be held")
    before = running(racks)
    assert before.keys() == {"w-driver"}
    coming = {each["node"] for each in racks.status("w")["assignments"] if each["podSet"] == "executor"}
    assert coming == R1 - set(before.values())
    racks.wait(lambda: {e["status"].get("nominatedNodeName") for e in held(racks)} == coming, "the room to be held")

    rival = made(workload, template("6"), "rival", {})
    rival["metadata"].pop("ownerReferences")
    rival["spec"]["nodeSelector"] = {"example.com/rack": "r1"}
    make(racks, rival)  # of the same priority
    for each in executors:
        each["metadata"]["ownerReferences"][0]["uid"] = uid
        make(racks, each)
    racks.wait(lambda: len(running(racks)) == 4, "the executors to run where room was held for them")
    assert set(running(racks).values()) == R1
    assert "rival" not in running(racks)
    racks.await_phase("w", "Placed")
    racks.wait(lambda: not held(racks), "the placeholders to go")

    racks.cluster.request("DELETE", PATH)
    racks.wait(lambda: not racks.gang("w"), "the gang to go with the application")
    racks.wait(lambda: {each["metadata"]["name"] for each in racks.pods()} == {"rival"}, "its pods to go")
