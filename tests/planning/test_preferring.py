"""Policies of the KAI guide weigh on the choice of nodes: NVSwitch is for gangs of several nodes.

gpu-zone-1
├── rack-a: dgx-h100-01, dgx-h100-02 (8 GPUs, NVSwitch)
├── rack-b: dgx-h100-03, dgx-h100-04 (8 GPUs, NVSwitch)
└── rack-c: hgx-a100-01 (4 GPUs, NVLink without NVSwitch), l40s-01 (8 GPUs, PCIe)
"""

from pathlib import Path
from typing import Any

import pytest

from planning.decision import Decision
from planning.dry_run import dry_run
from planning.files.documents import Document, parse

KAI = Path(__file__).parents[2] / "examples" / "kai"


def files(*names: str) -> list[Document]:
    """The objects of the guide's files."""
    found = []
    for name in names:
        documents, mistakes = parse((KAI / name).read_text(), name)
        assert not mistakes
        found += documents
    return found


def gang(count: int, gpus: int, **policy: Any) -> list[Document]:
    """A PodGroup of so many pods with so many GPUs each."""
    container = {"name": "main", "image": "trainer", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    annotations = {"scheduling.run.ai/pod-group": "g"}
    group = {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minMember": count, "topologyPolicy": policy},
    }
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"g-{index}", "annotations": annotations},
            "spec": {"containers": [container]},
        }
        for index in range(count)
    ]
    return [Document("test", each) for each in (group, *pods)]


def decided(*documents: Document) -> Decision:
    """The one decision about these objects."""
    run = dry_run(documents)
    assert not run.mistakes
    (decision,) = run.decisions
    return decision


def nodes(decision: Decision) -> set[str]:
    """The nodes that the gang was given."""
    return {each.node for each in decision.assignments}


CHOICES = {
    "a small job leaves NVSwitch alone": (1, 4, {"hgx-a100-01"}),
    "NVLink goes before sparing NVSwitch": (4, 2, {"dgx-h100-01"}),
    "several nodes want NVSwitch": (2, 8, {"dgx-h100-01", "dgx-h100-02"}),
}


@pytest.mark.parametrize(("count", "gpus", "wanted"), CHOICES.values(), ids=CHOICES)
def test_the_guides_policies_choose_between_nodes_that_would_all_do(count: int, gpus: int, wanted: set[str]) -> None:
    assert nodes(decided(*files("nodes.yaml", "tas-config.yaml"), *gang(count, gpus))) == wanted


def test_without_policies_the_fullest_fit_is_taken() -> None:
    assert nodes(decided(*files("nodes.yaml"), *gang(1, 8))) == {"l40s-01"}


def test_a_scope_of_one_nvlink_domain_takes_no_node_without_nvlink() -> None:
    busy = [each for each in files("nodes.yaml") if not each.manifest["metadata"]["name"].startswith("dgx")]
    decision = decided(*busy, *gang(2, 4, scope="nvlink-domain"))
    assert decision.outcome.value == "Unplaceable"
    assert nodes(decided(*busy, *gang(2, 4, scope="node"))) == {"l40s-01"}


def test_several_nodes_with_one_label_are_one_nvlink_domain() -> None:
    trays = [
        Document("test", {**each.manifest, "metadata": _tray(each.manifest["metadata"], f"nvl-{index // 2}")})
        for index, each in enumerate(files("nodes.yaml")[:4])
    ]
    decision = decided(*trays, *gang(4, 4, scope="nvlink-domain"))
    assert nodes(decision) == {"dgx-h100-01", "dgx-h100-02"}
    assert decided(*trays, *gang(5, 4, scope="nvlink-domain")).outcome.value == "Unplaceable"


def _tray(metadata: dict[str, Any], domain: str) -> dict[str, Any]:
    labels = {**metadata["labels"], "gpu.topology/nvlink-domain": domain, "gpu.topology/nvlink-domain-size": "16"}
    return {**metadata, "labels": labels}


def test_a_rack_is_not_asked_of_nodes_that_no_scope_needs_it_of() -> None:
    bare = []
    for each in files("nodes.yaml"):
        labels = {k: v for k, v in each.manifest["metadata"]["labels"].items() if not k.startswith("topology.")}
        bare.append(Document("test", {**each.manifest, "metadata": {**each.manifest["metadata"], "labels": labels}}))
    assert decided(*bare, *gang(2, 4, scope="node")).outcome.value == "Placed"
    assert decided(*bare, *gang(2, 4, scope="rack")).outcome.value == "Unplaceable"


def test_the_guides_files_are_solved_as_on_a_cluster() -> None:
    asked = ("multi-node-tas.yaml", "complete/trainer-node-1.yaml", "topology-aware-training.yaml")
    run = dry_run(files("nodes.yaml", "tas-config.yaml", *asked, "benchmark-topology.yaml"))
    placed = {each.key.name: nodes(each) for each in run.decisions}
    assert not run.mistakes
    assert placed["nccl-benchmark"] == {"hgx-a100-01"}
    assert len(placed["ddp-training-tas"]) == 1
    assert placed["multi-node-training"] in ({"dgx-h100-01", "dgx-h100-02"}, {"dgx-h100-03", "dgx-h100-04"})
    assert all(each.proof == "Optimal" for each in run.decisions)
