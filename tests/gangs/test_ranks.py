"""The order of a gang's members, and the sources of their ranks."""

from collections.abc import Mapping

import pytest
from written import documents, pod

from gangs.dialects.reading import read_all
from gangs.model import Gang
from gangs.sources import Sources

COMPLETION = "batch.kubernetes.io/job-completion-index"
ORDINAL = "apps.kubernetes.io/pod-index"
WORKER = "leaderworkerset.sigs.k8s.io/worker-index"
REPLICA = "training.kubeflow.org/replica-index"
OWN = "phalanx.dev/index"


def gang_of(pods: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]]) -> Gang:
    """The gang of pods given by name as (labels, annotations)."""
    written = documents("""
        apiVersion: phalanx.dev/v1alpha1
        kind: Gang
        metadata: {name: g, namespace: default}
        spec: {minMember: 1}
    """)
    members = [
        pod(name, labels={"phalanx.dev/gang": "g", **labels}, annotations=dict(annotations))
        for name, (labels, annotations) in pods.items()
    ]
    reading = read_all(Sources(pods=members).having(written[0]))
    assert reading.faults == ()
    return reading.gangs[0]


ORDERS = {
    "names, with numbers read as numbers": (
        {"w-10": ({}, {}), "w-9": ({}, {}), "w-0": ({}, {})},
        [("w-0", None), ("w-9", None), ("w-10", None)],
    ),
    "the annotation, whatever the names": (
        {"a": ({}, {OWN: "2"}), "b": ({}, {OWN: "0"}), "c": ({}, {OWN: "1"})},
        [("b", 0), ("c", 1), ("a", 2)],
    ),
    "the label does as well": ({"a": ({OWN: "1"}, {}), "b": ({OWN: "0"}, {})}, [("b", 0), ("a", 1)]),
    "both, where they agree": ({"a": ({OWN: "1"}, {OWN: "1"})}, [("a", 1)]),
    "members without a rank come last": (
        {"a": ({}, {}), "z": ({}, {OWN: "7"})},
        [("z", 7), ("a", None)],
    ),
    "the index of an Indexed Job": (
        {"j-1-x": ({COMPLETION: "1"}, {}), "j-0-y": ({COMPLETION: "0"}, {})},
        [("j-0-y", 0), ("j-1-x", 1)],
    ),
    "the ordinal of a StatefulSet": (
        {"s-1": ({ORDINAL: "1"}, {}), "s-0": ({ORDINAL: "0"}, {})},
        [("s-0", 0), ("s-1", 1)],
    ),
    "the index of a LeaderWorkerSet": (
        {"a": ({WORKER: "1"}, {}), "b": ({WORKER: "0"}, {})},
        [("b", 0), ("a", 1)],
    ),
    "the index of a PyTorchJob's replicas": (
        {"a": ({REPLICA: "1"}, {}), "b": ({REPLICA: "0"}, {})},
        [("b", 0), ("a", 1)],
    ),
    "names, where master and workers have an index 0 each": (
        {"t-worker-0": ({REPLICA: "0"}, {}), "t-master-0": ({REPLICA: "0"}, {}), "t-worker-1": ({REPLICA: "1"}, {})},
        [("t-master-0", None), ("t-worker-0", None), ("t-worker-1", None)],
    ),
    "a rank of the user's goes before the workload's": (
        {"j-0": ({COMPLETION: "0"}, {OWN: "1"}), "j-1": ({COMPLETION: "1"}, {OWN: "0"})},
        [("j-1", 0), ("j-0", 1)],
    ),
    "indices of two Jobs in one set say nothing: names do": (
        {"b-0": ({COMPLETION: "0"}, {}), "a-1": ({COMPLETION: "1"}, {}), "a-0": ({COMPLETION: "0"}, {})},
        [("a-0", None), ("a-1", None), ("b-0", None)],
    ),
}


@pytest.mark.parametrize(("pods", "order"), ORDERS.values(), ids=ORDERS)
def test_members_stand_in_the_order_of(
    pods: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]], order: list[tuple[str, int | None]]
) -> None:
    assert [(each.pod.metadata.name, each.index) for each in gang_of(pods).members] == order


@pytest.mark.parametrize(("annotations", "exact"), [({}, False), ({OWN: "0"}, True)])
def test_exact_nodes_are_promised_where_a_rank_is(annotations: Mapping[str, str], *, exact: bool) -> None:
    assert gang_of({"a": ({}, annotations)}).exact_nodes is exact
