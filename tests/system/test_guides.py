"""The guides of the site, played as they are written, each from an empty cluster; by the user who installed Phalanx."""

from pathlib import Path

import pytest
from page_commands import Shell, pages, play, with_marks
from system import Phalanx

from controlplane.programs.binaries import find_binaries
from controlplane.running.stages import GOES_ON

pytestmark = pytest.mark.controlplane

USUAL = ("koordinator", "kueue")
"""The guides that `make test` plays; `make test-long` plays all of them."""

_POLICIES = "admissionregistration.k8s.io/v1"
_NAME = "jobs-go-on"
_GOING_ON = [
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
"""Pods of Jobs run until they are deleted, as trainings do; without it kwok has them done at once."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", with_marks(pages(on_a_cluster=True), USUAL))
def test_a_guide_goes_as_it_is_written(phalanx: Phalanx, page: Path, tmp_path: Path) -> None:
    phalanx.cluster.apply(_GOING_ON)
    kubectl = Path(find_binaries()["kubectl"])
    environment = {"PATH": str(kubectl.parent), "KUBECONFIG": str(phalanx.cluster.kubeconfig)}
    assert "\n".join(play(page, Shell(tmp_path, environment))) == ""
