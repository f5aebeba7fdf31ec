"""Admission policies by which kwok lets pods run until they are deleted."""

from typing import Any

from waiting import wait_for

from controlplane.control_plane import ControlPlane
from controlplane.running.stages import GOES_ON

_POLICIES = "admissionregistration.k8s.io/v1"
_NAME = "jobs-go-on"
_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "goes-on", "namespace": "default"},
    "spec": {"containers": [{"name": "main", "image": "pause"}]},
}
_GOING_ON: list[dict[str, Any]] = [
    {
        "apiVersion": _POLICIES,
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": _NAME},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
                ]
            },
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "mutations": [
                {
                    "patchType": "ApplyConfiguration",
                    "applyConfiguration": {
                        "expression": f'Object{{metadata: Object.metadata{{annotations: {{"{GOES_ON}": "true"}}}}}}'
                    },
                }
            ],
        },
    },
    {
        "apiVersion": _POLICIES,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": _NAME},
        "spec": {"policyName": _NAME},
    },
]
"""An admission policy and its binding: pods run until they are deleted, as trainings do. kwok would end them soon."""


def let_pods_go_on(plane: ControlPlane) -> None:
    """Let pods run until they are deleted, from now on. The API server reads a new policy some moments later."""
    plane.apply(_GOING_ON)

    def applies() -> bool:
        answer: dict[str, Any] = plane.request("POST", "/api/v1/namespaces/default/pods?dryRun=All", _POD)
        return GOES_ON in (answer.get("metadata", {}).get("annotations") or {})

    wait_for(applies, "the policy by which pods go on")
