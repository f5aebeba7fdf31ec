"""The test control plane's own server-side apply sends the API server the requests that kubectl sends."""

import json
from typing import Any

import pytest

from controlplane.api import RefusedError
from controlplane.applying import UnknownKindError
from controlplane.control_plane import ControlPlane

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

OBJECTS = (
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "made", "annotations": {"told": "“so” & <so>"}},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    },
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "made"}, "value": 7},
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "made", "namespace": "kube-public"},
        "data": {"a": "b"},
    },
)


def stored(cluster: ControlPlane, manifest: dict[str, Any]) -> dict[str, Any]:
    """The object as it is, without what each has of its own."""
    found: dict[str, Any] = cluster.request("GET", f"{cluster.applier.collection(manifest)}/made")
    metadata = found["metadata"]
    for each in metadata["managedFields"]:
        del each["time"]
    for key in ("uid", "creationTimestamp", "resourceVersion"):
        del metadata[key]
    last = metadata["annotations"]["kubectl.kubernetes.io/last-applied-configuration"]
    metadata["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = json.loads(last)
    metadata["managedFields"] = [each for each in metadata["managedFields"] if each["manager"].startswith("kubectl")]
    return {key: each for key, each in found.items() if key != "status"}


@pytest.mark.parametrize("manifest", OBJECTS, ids=[str(each["kind"]) for each in OBJECTS])
def test_an_object_is_created_as_kubectl_creates_it(cluster: ControlPlane, manifest: dict[str, Any]) -> None:
    text = json.dumps(manifest)
    cluster.kubectl("apply", "-f", "-", stdin=text)
    by_kubectl = stored(cluster, manifest)
    cluster.kubectl("delete", "-f", "-", stdin=text)
    assert cluster.applier.create(manifest, dry_run=True).status == 201
    assert cluster.applier.create(manifest).status == 201
    assert stored(cluster, manifest) == by_kubectl
    assert cluster.applier.create(manifest).status == 409
    assert "unchanged" in cluster.kubectl("apply", "-f", "-", stdin=text)
    cluster.kubectl("delete", "-f", "-", stdin=text)


def test_it_is_applied_again_and_a_wrong_one_is_refused(cluster: ControlPlane) -> None:
    manifest: dict[str, Any] = dict(OBJECTS[2])
    cluster.apply([manifest])
    cluster.apply([{**manifest, "data": {"c": "d"}}])
    assert cluster.request("GET", f"{cluster.applier.collection(manifest)}/made")["data"] == {"c": "d"}
    with pytest.raises(RefusedError, match="ConfigMap made: "):
        cluster.apply([{**manifest, "data": {"c": ["no text"]}}])
    cluster.kubectl("delete", "-f", "-", stdin=json.dumps(manifest))


def test_what_is_warned_of_is_told_and_a_kind_that_there_is_not_is_unknown(cluster: ControlPlane) -> None:
    pod: dict[str, Any] = {
        "metadata": {"name": "warned"},
        "spec": {"containers": [{"name": "c", "image": "b", "ports": []}]},
    }
    twice = [{"name": "X", "value": "1"}, {"name": "X", "value": "2"}]
    pod["spec"]["containers"][0]["env"] = twice
    answer = cluster.applier.create({"apiVersion": "v1", "kind": "Pod", **pod}, dry_run=True)
    assert answer.warnings == (
        'spec.containers[0].env[1]: hides previous definition of "X", which may be dropped when using apply',
    )
    with pytest.raises(UnknownKindError, match="there is no Gong of v1"):
        cluster.applier.create({"apiVersion": "v1", "kind": "Gong", "metadata": {"name": "a"}})
