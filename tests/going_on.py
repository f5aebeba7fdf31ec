"""Admission policies by which kwok lets pods run until they are deleted."""

from typing import Any

from controlplane.running.stages import GOES_ON

_POLICIES = "admissionregistration.k8s.io/v1"
_NAME = "jobs-go-on"
GOING_ON: list[dict[str, Any]] = [
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
