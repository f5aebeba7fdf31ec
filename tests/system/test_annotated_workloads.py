"""One annotation on a workload that can be a gang, or other systems' keys, on a real control plane.

The controllers of the core are the real ones. Of a kind whose operator cannot be had the test makes what that makes
(`workload_operators`); real operators run in `test_real_operators`, `test_training_operator` and `test_train_jobs`.
Racks r1: n0 … n3, r2: n4 … n6. A pod fills a node, so that a gang of four fits in r1 alone.
"""

from collections.abc import Iterator

import pytest
import yaml
from asking import DIALECTS, dialects, too_many
from foreign_kinds import served
from system import Object, Phalanx
from two_racks import apply_two_racks
from workload_operators import ROWS, Row

from controlplane.control_plane import ControlPlane
from controlplane.recording import bound
from gangs.workloads.kind_table import WORKLOADS

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("operated_kinds"), pytest.mark.long]

R1 = {"n0", "n1", "n2", "n3"}
OPERATED = {name: ROWS[name] for name in ("Volcano's Job",)}
"""Kinds whose operator does not run here; the test creates their pods."""

as_a_whole = pytest.mark.parametrize("dialect", ["ours", "Run:ai's"])
"""Kueue takes the pods of these kinds one by one, or does not know them."""

MARKED = {
    "ours": {"phalanx.dev/workload": "StatefulSet"},
    "Kueue's": {"kueue.x-k8s.io/queue-name": "q"},
    "Run:ai's": {"phalanx.dev/workload": "runai.StatefulSet"},
}
"""The labels or annotations that admission writes on the pod template, by the system whose keys the workload has."""


@pytest.fixture(scope="module")
def operated_kinds(control_plane: ControlPlane) -> Iterator[None]:
    """Serve the kinds of other projects until the module's tests are over."""
    with served(control_plane, {(row.group, row.kind): row.version for row in OPERATED.values()}):
        yield


@pytest.fixture
def racks(phalanx: Phalanx, dialect: str) -> Phalanx:
    """Seven nodes in two racks, and a topology over them."""
    return apply_two_racks(phalanx, 7, dialect)


def filling(row: Row, dialect: str) -> Object:
    """The workload with pods of which each fills a node, all in one rack."""
    found: Object = yaml.safe_load(yaml.safe_dump(row.manifest()).replace("cpu: '1'", "cpu: '6'"))
    DIALECTS[dialect](found)
    return found


def path_of(row: Row) -> str:
    """Where the API server keeps the workload."""
    return f"/apis/{row.api_version}/namespaces/default/{WORKLOADS[row.group, row.kind].plural}/w"


def stored(phalanx: Phalanx, row: Row) -> Object:
    """The workload as the API server has it."""
    found: Object = phalanx.cluster.request("GET", path_of(row))
    assert found["kind"] == row.kind, found
    return found


def make(phalanx: Phalanx, *pods: Object) -> None:
    """Create the pods that an operator creates."""
    for each in pods:
        answer = phalanx.cluster.request("POST", "/api/v1/namespaces/default/pods", each)
        assert answer["kind"] == "Pod", answer


def running(phalanx: Phalanx) -> dict[str, str]:
    """Where the pods that have nodes are."""
    pods = ((each["metadata"]["name"], each["spec"].get("nodeName", "")) for each in phalanx.pods())
    return {name: node for name, node in pods if node}


@as_a_whole
@pytest.mark.parametrize("row", OPERATED.values(), ids=OPERATED)
def test_nothing_starts_until_all_can_and_all_start_in_one_rack(racks: Phalanx, row: Row, dialect: str) -> None:
    racks.apply_once_told("gang default/w: 4 pods fit in r1: n0..3", filling(row, dialect))
    workload = stored(racks, row)
    *first, last = row.pods(workload)
    with racks.record() as recorder:
        make(racks, *first)
        said = "waits for 1 more pod"
        racks.wait(lambda: said in racks.status("w").get("message", ""), "the gang to say why it waits")
        assert racks.status("w")["phase"] == "Waiting"
        assert [len(racks.pods()), running(racks)] == [3, {}]
        make(racks, last)
        racks.wait(lambda: len(running(racks)) == 4, "all pods to be bound")
        events = recorder.events
    complete = max(number for number, event in enumerate(events) if event.type == "ADDED")
    assert not any(bound(event) for event in events[:complete])
    before = running(racks)
    assert set(before.values()) == R1
    racks.wait(lambda: racks.status("w").get("members", {}).get("bound") == 4, "the gang to say so")
    assert racks.status("w")["phase"] == "Placed"
    (owner,) = racks.gang("w")["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == (row.kind, workload["metadata"]["uid"])

    gone = max(before)
    racks.cluster.kubectl("delete", "pod", gone)
    make(racks, *(each for each in (*first, last) if each["metadata"]["name"] == gone))
    racks.wait(lambda: len(running(racks)) == 4, "the pod that takes its place")
    assert set(running(racks).values()) == R1
    racks.cluster.request("DELETE", path_of(row))
    racks.wait(lambda: not racks.gang("w") and not racks.pods(), "the gang and its pods to go with the workload")


@dialects
def test_a_stateful_set_is_one_gang_and_stays_one_when_it_is_written_anew(racks: Phalanx, dialect: str) -> None:
    row = ROWS["StatefulSet"]
    manifest = filling(row, dialect)
    racks.apply_once_told("gang default/w: 4 pods fit in r1: n0..3", manifest)
    assert set(racks.await_bound(row.names).values()) == R1
    before = racks.nodes_of(row.names)
    racks.cluster.kubectl("delete", "pod", "w-2")
    racks.wait(lambda: racks.nodes_of(row.names) == before, "the pod's replacement beside its siblings")
    assert "kubectl apply" not in racks.apply(manifest)
    text = yaml.safe_dump(manifest)
    racks.cluster.kubectl("replace", "-f", "-", stdin=text)
    labels = stored(racks, row)["spec"]["template"]["metadata"]["labels"]
    assert labels == {"app": "w", **MARKED[dialect]}


@as_a_whole
@pytest.mark.parametrize("kind", ["Deployment", pytest.param("ReplicaSet", marks=pytest.mark.long)])
def test_pods_without_numbers_start_together_and_are_replaced_beside_each_other(
    racks: Phalanx, kind: str, dialect: str
) -> None:
    manifest = filling(ROWS[kind], dialect)
    with racks.record() as recorder:
        racks.apply_once_told("gang default/w: 4 pods fit in r1: n0..3", manifest)
        racks.wait(lambda: len(running(racks)) == 4, "all pods to be bound")
        events = recorder.events
    complete = [number for number, event in enumerate(events) if event.type == "ADDED"][3]
    assert not any(bound(event) for event in events[:complete])
    assert set(running(racks).values()) == R1
    racks.cluster.kubectl("delete", "pod", min(running(racks)))
    racks.wait(lambda: len(running(racks)) == 4, "the pod that takes its place")
    assert set(running(racks).values()) == R1
    racks.cluster.kubectl("scale", "--replicas=3", f"{kind.lower()}/w")
    racks.wait(lambda: racks.status("w").get("members", {}).get("expected") == 3, "the gang to be smaller")
    assert racks.status("w")["phase"] == "Placed"
    racks.cluster.request("DELETE", path_of(ROWS[kind]), {"propagationPolicy": "Background"})
    racks.wait(lambda: not racks.gang("w") and not racks.pods(), "the gang and its pods to go with the workload")


@as_a_whole
def test_a_deployment_that_has_no_room_waits_as_a_whole_until_it_is_smaller(racks: Phalanx, dialect: str) -> None:
    manifest = filling(ROWS["Deployment"], dialect)
    manifest["spec"]["replicas"] = 5
    racks.apply_once_told(f"gang default/w: {too_many(dialect)}", manifest)
    racks.await_phase("w", "Unplaceable")
    assert (len(racks.pods()), running(racks)) == (5, {})
    racks.cluster.kubectl("scale", "--replicas=4", "deployment/w")
    racks.wait(lambda: len(running(racks)) == 4, "the smaller gang to start")
    assert set(running(racks).values()) == R1
