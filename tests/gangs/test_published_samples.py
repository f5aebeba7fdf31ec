"""The sample manifests that operators publish, unmodified but for one annotation: planned, or said what is not read."""

from collections.abc import Iterator

import pytest
import yaml
from workload_operators import Object

from controlplane.operators import source
from gangs.dialects.expanding import expanded
from gangs.dialects.reading import read_all
from gangs.dialects.reviewing import review
from gangs.manifests import key_of
from gangs.sources import Sources
from gangs.workloads.kind_table import WORKLOADS

FOLDERS = {
    "kuberay": ("config/samples",),
    "lws": ("docs/examples", "config/samples"),
    "mpi-operator": ("examples",),
    "training-operator": ("examples",),
}
_GROUPS = {
    "kuberay": "ray.io",
    "lws": "leaderworkerset.x-k8s.io",
    "mpi-operator": "kubeflow.org",
    "training-operator": "kubeflow.org",
}
NOT_PLANNED = {
    "ray-cluster.kai-gpu-sharing.yaml": "metadata.annotations[gpu-fraction]: asks for a part of a GPU",
    "ray-job.use-existing-raycluster.yaml": "spec.rayClusterSpec: is missing: it says what RayCluster is made",
}
"""Samples that are refused, and for what."""


def samples(operator: str) -> Iterator[tuple[str, Object]]:
    """The operator's own kinds in its samples, by file, with the annotation."""
    for folder in FOLDERS[operator]:
        for file in sorted((source(operator) / folder).glob("**/*.yaml")):
            for each in yaml.load_all(file.read_text(), yaml.CSafeLoader):
                if isinstance(each, dict) and _is_of(each, operator):
                    each["metadata"].setdefault("namespace", "default")
                    each["metadata"].setdefault("annotations", {})["phalanx.dev/gang"] = "true"
                    yield file.name, each


def _is_of(manifest: Object, operator: str) -> bool:
    group = str(manifest.get("apiVersion", "")).partition("/")[0]
    of = _GROUPS[operator]
    return group == of and (group, manifest.get("kind")) in WORKLOADS and bool(manifest.get("spec"))


@pytest.mark.parametrize("operator", FOLDERS)
def test_each_is_planned_or_refused_for_what_is_not_read(operator: str) -> None:
    found = list(samples(operator))
    assert len(found) >= 5
    for file, manifest in found:
        faults = [str(each) for each in review(manifest, Sources())[0]]
        if file in NOT_PLANNED:
            assert NOT_PLANNED[file] in faults[0]
            continue
        assert faults == [], file
        gangs = read_all(expanded(Sources(objects={key_of(manifest): manifest}))[0]).gangs
        assert gangs, file
        assert all(len(each.members) >= each.min_member for each in gangs), file
