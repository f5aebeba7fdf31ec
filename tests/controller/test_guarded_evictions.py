"""Evictions on a real API server: only the pod with the expected uid is evicted.

Where it matters, the pod is evicted only in the expected resource version.
"""

import json
from collections.abc import Iterator

import msgspec
import pytest

from cluster.api.connecting import connect
from cluster.api.transport import MERGE_PATCH, ONLY_METADATA
from controller.writes.writer import Result, Writer
from controlplane.control_plane import ControlPlane, wait_until
from kube.keys import GATE
from kube.objects import Pod

pytestmark = pytest.mark.controlplane

OTHER = {"name": "example.com/other"}
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def writer(cluster: ControlPlane) -> Iterator[Writer]:
    made = Writer(connect(str(cluster.kubeconfig)))
    yield made
    made.close()


@pytest.fixture
def seen(cluster: ControlPlane) -> Pod:
    """Return a pod as it was before its gate was removed; another gate still holds it."""
    containers = [{"name": "main", "image": "pause"}]
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "gated", "namespace": "default"},
        "spec": {"schedulingGates": [{"name": GATE}, OTHER], "containers": containers},
    }
    before = cluster.request("POST", PODS, manifest)
    let_go = json.dumps({"spec": {"schedulingGates": [OTHER]}})
    cluster.kubectl("patch", "pod", "gated", "--type=merge", "-p", let_go)
    return msgspec.convert(before, Pod)


def test_a_pod_that_changed_meanwhile_is_left_alone_where_its_version_is_named(
    cluster: ControlPlane, writer: Writer, seen: Pod
) -> None:
    meta = seen.metadata
    written = writer.evict(meta.namespace, meta.name, meta.uid, version=meta.resource_version)
    assert written.result is Result.CONFLICT
    assert "deletionTimestamp" not in cluster.request("GET", f"{PODS}/gated")["metadata"]


def test_another_pod_of_that_name_is_left_alone(cluster: ControlPlane, writer: Writer, seen: Pod) -> None:
    assert writer.evict("default", seen.metadata.name, "another-uid").result is Result.CONFLICT
    assert "deletionTimestamp" not in cluster.request("GET", f"{PODS}/gated")["metadata"]


def test_the_pod_goes_as_it_is_now(cluster: ControlPlane, writer: Writer, seen: Pod) -> None:
    now = cluster.request("GET", f"{PODS}/gated")["metadata"]["resourceVersion"]
    assert writer.evict("default", "gated", seen.metadata.uid, version=now).done
    wait_until(lambda: cluster.request("GET", f"{PODS}/gated").get("code") == 404, 120, "the pod to go")


def test_a_write_is_answered_with_the_metadata_only(cluster: ControlPlane, writer: Writer, seen: Pod) -> None:
    now = msgspec.convert(cluster.request("GET", f"{PODS}/gated"), Pod)
    written = writer.nominate(now, "n1", "plan")
    after = cluster.request("GET", f"{PODS}/gated")
    assert (written.uid, written.version) == (seen.metadata.uid, after["metadata"]["resourceVersion"])
    assert after["status"]["nominatedNodeName"] == "n1"
    answer = connect(str(cluster.kubeconfig)).request(
        "PATCH", f"{PODS}/gated", body={}, content_type=MERGE_PATCH, headers={"Accept": ONLY_METADATA}
    )
    assert (answer["kind"], "spec" in answer) == ("PartialObjectMetadata", False)
