"""kube-score on everything that is applied: each finding that is left has its reason here."""

import json

import pytest

from controlplane.checkers import check
from controlplane.rendering import MANIFESTS, kustomize

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

EXPLAINED = {
    "container-image-pull-policy": "the tag is a version: nodes that have it need no registry to start a webhook again",
    "deployment-has-host-podantiaffinity": "topologySpreadConstraints keep replicas on different nodes",
}
NO_CPU_LIMIT = "--ignore-container-cpu-limit"
"""The servers have no cpu limit, because throttling would delay admissions. Their cpu request guarantees their share.

All other resources have limits, and the check `container-resources` verifies them.
"""
FINE = 10
"""kube-score's grade of a check without findings. Grade 0 means that the check was skipped."""


@pytest.mark.parametrize("overlay", ["default", "high-availability", "webhook-by-url", "admission-policy"])
def test_no_finding_is_left_unexplained(overlay: str) -> None:
    ignored = [part for each in EXPLAINED for part in ("--ignore-test", each)]
    found = grades(overlay, NO_CPU_LIMIT, *ignored)
    assert found
    assert {name: grade for name, grade in found.items() if 0 < grade < FINE} == {}


def test_every_explanation_explains_a_finding() -> None:
    left = {name.rsplit(" ", 1)[1] for name, grade in grades("default").items() if 0 < grade < FINE}
    assert left == {*EXPLAINED, "container-resources"}


def grades(overlay: str, *options: str) -> dict[str, int]:
    """The grade of each object in each check."""
    answer = check(
        "kube-score", "score", "--output-format", "json", *options, "-", stdin=kustomize(MANIFESTS / overlay)
    )
    assert answer.stderr == ""
    return {
        f"{each['object_name']} {one['check']['id']}": 0 if one["skipped"] else one["grade"]
        for each in json.loads(answer.stdout)
        for one in each["checks"] or ()
    }
