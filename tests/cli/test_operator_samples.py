"""The manifests that the operators' own modules have as samples, one annotation added, planned from their files.

Each is planned on nodes that have what its pods ask for: 200 with GPUs and TPUs, some with the labels of its selectors.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from contract_report import report_of

from cli.main import group
from controlplane.operators import STARTED, source
from gangs.manifests import group_of
from gangs.workloads.kind_table import WORKLOADS
from kube.keys import GANG

pytestmark = pytest.mark.controlplane

Sample = dict[str, Any]
FOLDERS = ("config/samples", "docs/examples", "examples")
"""Folders of the operators' modules that contain samples."""
NOT_PLANNED = {
    "config/samples/batch_v1alpha2_jobset.yaml": "asks for nothing: the JobSet has no pod template",
    "config/samples/ray-cluster.kai-gpu-sharing.yaml": "annotations[gpu-fraction]: asks for a part of a GPU",
    "config/samples/ray-job.use-existing-raycluster.yaml": "spec.rayClusterSpec: is missing",
    "config/samples/ray-cluster.persistent-redis.yaml": "pod has unbound immediate PersistentVolumeClaims",
}
"""By sample: the message about a sample that cannot be planned."""
ROOM = {"cpu": "256", "memory": "4Ti", "pods": "110", "ephemeral-storage": "10Ti"}
ACCELERATORS = {"nvidia.com/gpu": "8", "google.com/tpu": "8"}
MANY, SOME = 200, 70
WITHOUT = "trainer"
"""The operator without samples as manifests: its module has samples in Python only."""
OPERATORS = [
    pytest.param(each, marks=() if each == "jobset" else pytest.mark.long) for each in sorted(set(STARTED) - {WITHOUT})
]


def node(name: str, labels: Mapping[str, str]) -> Sample:
    """Return a node with enough capacity for any sample."""
    room = {**ROOM, **ACCELERATORS}
    metadata = {"name": name, "labels": {**labels, "kubernetes.io/hostname": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"capacity": room, "allocatable": room}}


def samples(operator: str) -> Iterator[tuple[str, list[Sample]]]:
    """Yield the path and the objects of each sample with a workload that can be a gang.

    Each such workload gets the annotation that makes it a gang.
    """
    root = source(operator)
    for path in sorted(file for folder in FOLDERS for file in (root / folder).rglob("*.yaml")):
        documents = [each for each in yaml.safe_load_all(path.read_text()) if isinstance(each, dict) and "kind" in each]
        workloads = [each for each in documents if (group_of(each["apiVersion"]), each["kind"]) in WORKLOADS]
        for each in workloads:
            each["metadata"].setdefault("annotations", {})[GANG] = "true"
        if workloads:
            yield str(path.relative_to(root)), documents


def selectors(value: object) -> Iterator[dict[str, str]]:
    """Every nodeSelector in it."""
    if isinstance(value, dict):
        if isinstance(found := value.get("nodeSelector"), dict):
            yield found
        value = list(value.values())
    for each in value if isinstance(value, list) else ():
        yield from selectors(each)


@pytest.mark.parametrize("operator", OPERATORS)
def test_its_samples_are_planned_or_it_is_said_which_field_is_in_the_way(operator: str, tmp_path: Path) -> None:
    seen = 0
    for name, documents in samples(operator):
        labels = {str(sorted(each.items())): each for each in selectors(documents)}
        nodes = [node(f"n{number}", {}) for number in range(MANY)]
        nodes += [node(f"s{at}-{number}", each) for at, each in enumerate(labels.values()) for number in range(SOME)]
        files = {"nodes": nodes, "sample": documents}
        for file, content in files.items():
            (tmp_path / f"{file}.yaml").write_text(yaml.dump_all(content, Dumper=yaml.CSafeDumper))
        arguments = [part for file in files for part in ("-f", str(tmp_path / f"{file}.yaml"))]
        answer = CliRunner().invoke(group, ["solve", *arguments, "-o", "json"], catch_exceptions=False)
        if name in NOT_PLANNED:
            assert NOT_PLANNED[name] in answer.stderr + answer.stdout, name
        else:
            gangs = report_of(answer.stdout).gangs
            assert (name, {each.outcome for each in gangs}, answer.exit_code) == (name, {"Placed"}, 0)
        seen += 1
    assert seen
