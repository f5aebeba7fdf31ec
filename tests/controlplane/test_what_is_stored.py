"""`emptying.empty` looks for each kind under its key in etcd: objects of a kind under another key would stay."""

from typing import Any

import pytest
from emptying import empty, files, kinds, path_of

from controlplane.control_plane import ControlPlane, wait_until

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

PATIENCE = 60.0
NAME = "filed"
IN_NO_NAMESPACE = (
    "nodes",
    "namespaces",
    "persistentvolumes",
    "priorityclasses",
    "storageclasses",
    "runtimeclasses",
    "deviceclasses",
)
PODS = {"containers": [{"name": "c", "image": "b"}]}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": PODS}
ONCE = {"template": {"spec": {**PODS, "restartPolicy": "Never"}}}
WORKLOAD = {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}}
NOTHING = {
    "resourceRules": [
        {"apiGroups": ["none"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothing"]}
    ]
}
VOLUME = {"accessModes": ["ReadWriteOnce"]}
SPECS: dict[str, dict[str, Any]] = {
    "deployments": WORKLOAD,
    "daemonsets": WORKLOAD,
    "replicasets": WORKLOAD,
    "statefulsets": {"spec": {**WORKLOAD["spec"], "serviceName": "s"}},
    "cronjobs": {"spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": ONCE}}},
    "jobs": {"spec": ONCE},
    "pods": {"spec": PODS},
    "poddisruptionbudgets": {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}},
    "storageclasses": {"provisioner": "nobody"},
    "runtimeclasses": {"handler": "none"},
    "deviceclasses": {"spec": {}},
    "persistentvolumeclaims": {"spec": {**VOLUME, "resources": {"requests": {"storage": "1Gi"}}}},
    "persistentvolumes": {"spec": {**VOLUME, "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/nowhere"}}},
    "limitranges": {"spec": {"limits": [{"type": "Container"}]}},
    "roles": {"rules": []},
    "rolebindings": {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}},
    "controllerrevisions": {"revision": 1, "data": {"a": "b"}},
    "services": {"spec": {"ports": [{"port": 1}]}},
    "events": {"involvedObject": {"namespace": "default"}},
    "priorityclasses": {"value": 1},
    "validatingadmissionpolicies": {"spec": {"matchConstraints": NOTHING, "validations": [{"expression": "true"}]}},
    "validatingadmissionpolicybindings": {"spec": {"policyName": "p", "validationActions": ["Deny"]}},
    "mutatingadmissionpolicies": {
        "spec": {
            "matchConstraints": NOTHING,
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}],
        }
    },
    "mutatingadmissionpolicybindings": {"spec": {"policyName": "p"}},
}
"""Beside its metadata, what an object of a kind cannot do without."""


@pytest.mark.parametrize("kind", kinds())
def test_an_object_of_every_kind_that_is_removed_is_found_in_etcd(cluster: ControlPlane, kind: str) -> None:
    group_version, _, plural = kind.rpartition("/")
    own = "" if plural in IN_NO_NAMESPACE or group_version.startswith("admissionregistration") else "default"
    listed = cluster.request("GET", path_of(kind))["kind"]
    manifest = {"apiVersion": group_version, "kind": listed.removesuffix("List"), "metadata": {"name": NAME}}
    manifest |= SPECS.get(plural, {})
    answer: dict[str, Any] = {}

    def made() -> bool:  # a pod needs the service account of its namespace, which comes a moment after that
        nonlocal answer
        answer = cluster.request("POST", path_of(kind, own), manifest)
        return bool(answer["kind"] == manifest["kind"])

    wait_until(made, PATIENCE, f"{kind} to be created")
    assert NAME in {each.name for each in files(kind, cluster.stored()) if each.namespace == own}, answer
    cluster.request("DELETE", f"{path_of(kind, own)}/{NAME}")
    empty(cluster)
