"""One annotation on a workload, or another system's keys, and its real operator makes the pods.

Racks r1: n0 … n3, r2: n4 … n6. A pod fills a node, so that a gang of four fits in r1 alone, and one of five nowhere.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest
import yaml
from asking import DIALECTS, RACK, dialects, too_many, topology
from node_manifests import node_manifest
from replaced import delete_and_await_nothing, delete_and_await_successor
from system import Object, Phalanx
from workload_operators import ROWS

from controlplane.control_plane import ControlPlane
from controlplane.operator_processes import Running, running
from controlplane.recording import bound
from gangs.workloads.kind_table import WORKLOADS
from kube.keys import SYSTEM_NAMESPACE
from kube.placeholders import PLACEHOLDER

pytestmark = pytest.mark.controlplane

R1 = ["n0", "n1", "n2", "n3"]


@dataclass(frozen=True, slots=True)
class Case:
    """A kind and its operator.

    `rank`: the pod labels of its rank, if any. `count`: the fields for the number of pods, besides those that always
    exist (`others`). `in_order`: the spec by which some pods come first, if the kind can do that. `first`: the number
    of those pods.
    """

    operator: str
    kind: str
    rank: tuple[str, ...]
    count: tuple[tuple[str | int, ...], ...]
    others: int
    in_order: Mapping[str, object]
    first: int = 1


_NODES = ("replicatedJobs", 1, "template", "spec")
CASES = (
    Case(
        "lws",
        "LeaderWorkerSet",
        ("leaderworkerset.sigs.k8s.io/worker-index",),
        (("leaderWorkerTemplate", "size"),),
        0,
        {"startupPolicy": "LeaderReady"},
    ),
    Case(
        "jobset",
        "JobSet",
        ("jobset.sigs.k8s.io/job-global-index", "batch.kubernetes.io/job-completion-index"),
        ((*_NODES, "parallelism"), (*_NODES, "completions")),
        1,
        {"startupPolicy": {"startupPolicyOrder": "InOrder"}},
    ),
    Case(
        "kuberay",
        "RayCluster",
        (),
        (("workerGroupSpecs", 0, "replicas"), ("workerGroupSpecs", 0, "maxReplicas")),
        1,
        {},
    ),
    Case(
        "mpi-operator",
        "MPIJob",
        ("training.kubeflow.org/replica-index",),
        (("mpiReplicaSpecs", "Worker", "replicas"),),
        1,
        {"launcherCreationPolicy": "WaitForWorkersReady"},
        3,
    ),
    Case(
        "training-operator",
        "PyTorchJob",
        ("training.kubeflow.org/replica-type", "training.kubeflow.org/replica-index"),
        (("pytorchReplicaSpecs", "Worker", "replicas"),),
        1,
        {},
    ),
)

IN_ORDER = [each for each in CASES if each.in_order]
in_order = pytest.mark.parametrize("operated", IN_ORDER, indirect=True, ids=[each.kind for each in IN_ORDER])


USUAL = ("JobSet",)
"""The kinds that `make test` shows; `make test-long` shows all of them."""
ALL = [pytest.param(each, id=each.kind, marks=() if each.kind in USUAL else pytest.mark.long) for each in CASES]


@pytest.fixture(scope="module", params=ALL)
def operated(request: pytest.FixtureRequest, control_plane: ControlPlane) -> Iterator[tuple[Case, Running]]:
    """A kind with its operator running."""
    with running(control_plane, request.param.operator) as operator:
        yield request.param, operator


@pytest.fixture
def case(operated: tuple[Case, Running], phalanx: Phalanx) -> Case:
    """Seven nodes in two racks, and the operator's webhooks."""
    operated[1].register()
    phalanx.submit(
        *(node_manifest(f"n{number}", {RACK: "r1" if number < 4 else "r2"}) for number in range(7)),
    )
    phalanx.cluster.await_nodes(f"n{number}" for number in range(7))
    return operated[0]


def manifest(case: Case, dialect: str, *, pods: int) -> Object:
    """Return the workload with so many pods, of which each fills a node, all in one rack."""
    text = yaml.safe_dump(ROWS[case.kind].manifest(), sort_keys=False)
    found: Object = yaml.safe_load(text.replace("cpu: '1'", "cpu: '6'"))
    for *way, last in case.count:
        part = found["spec"]
        for step in way:
            part = part[step]
        part[last] = pods - case.others
    DIALECTS[dialect](found)
    return found


def path_of(case: Case) -> str:
    """Where the API server keeps the workload."""
    row = ROWS[case.kind]
    return f"/apis/{row.api_version}/namespaces/default/{WORKLOADS[row.group, row.kind].plural}/w"


def nodes(phalanx: Phalanx) -> dict[str, str]:
    """Where the pods that have nodes are."""
    pods = ((each["metadata"]["name"], each["spec"].get("nodeName", "")) for each in phalanx.pods())
    return {name: node for name, node in pods if node}


def by_rank(phalanx: Phalanx, case: Case) -> list[str]:
    """The nodes of the pods in the order of their ranks (a launcher has none, and is before all), or of the nodes."""
    of = [(each["metadata"]["labels"], each["spec"].get("nodeName", "")) for each in phalanx.pods()]
    found = sorted((*(labels.get(each, "").rjust(8) for each in case.rank), node) for labels, node in of)
    return [node for *_, node in found]


@dialects
def test_its_gang_starts_whole_in_order_is_mended_and_goes(phalanx: Phalanx, case: Case, dialect: str) -> None:
    gang = ROWS[case.kind].gang
    phalanx.submit(topology(dialect))
    with phalanx.record() as recorder:
        phalanx.apply_once_told(
            f"gang default/{gang}: 4 pods fit in r1: n0..3, proven optimal", manifest(case, dialect, pods=4)
        )
        phalanx.wait(lambda: len(nodes(phalanx)) == 4, "all pods to be bound")
        events = recorder.events
    complete = [number for number, event in enumerate(events) if event.type == "ADDED"][3]
    assert not any(bound(event) for event in events[:complete])
    assert by_rank(phalanx, case) == R1
    phalanx.await_phase(gang, "Placed")
    (owner,) = phalanx.gang(gang)["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == (case.kind, "w")

    if case.kind != "JobSet" or dialect == "ours":  # a Job waits ten seconds before it makes a pod again
        deleted = next(each for each in phalanx.pods() if each["spec"]["nodeName"] == "n2")
        delete_and_await_successor(phalanx, deleted, R1)
    # Until the last pod has gone those whose maker went first may be shown as a gang of their own.
    background = {"propagationPolicy": "Background"}
    delete_and_await_nothing(phalanx, lambda: phalanx.cluster.request("DELETE", path_of(case), background))


@pytest.mark.long
@dialects
def test_one_pod_too_many_and_none_starts(phalanx: Phalanx, case: Case, dialect: str) -> None:
    gang = ROWS[case.kind].gang
    phalanx.submit(topology(dialect))
    workload = manifest(case, dialect, pods=5)
    with phalanx.record() as recorder:
        phalanx.apply_once_told(f"gang default/{gang}: needs 5 pods", workload)
        status = phalanx.await_phase(gang, "Unplaceable")
        phalanx.wait(lambda: len(phalanx.pods()) == 5, "all pods to be made")
        events = recorder.events
    assert too_many(dialect) in status["message"]
    assert not any(bound(event) for event in events)
    assert all(each["spec"]["schedulingGates"] for each in phalanx.pods())


@pytest.mark.long
@dialects
@in_order
def test_room_is_held_until_the_operator_makes_the_pods_that_come_after_others(
    phalanx: Phalanx, case: Case, dialect: str
) -> None:
    gang = ROWS[case.kind].gang
    phalanx.submit(topology(dialect))
    workload = manifest(case, dialect, pods=4)
    workload["spec"] |= case.in_order
    with phalanx.record() as recorder:
        phalanx.apply_once_told(f"gang default/{gang}: 4 pods fit in r1: n0..3, proven optimal", workload)
        phalanx.wait(lambda: len(nodes(phalanx)) == 4, "all pods to be bound")
        events = [each for each in recorder.events if each.object["metadata"]["namespace"] == "default"]
    added = [number for number, event in enumerate(events) if event.type == "ADDED"]
    started = next(number for number, event in enumerate(events) if bound(event))
    assert started < added[case.first], "the operator has waited for the first pods"
    assert by_rank(phalanx, case) == R1
    phalanx.await_phase(gang, "Placed")
    path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods?labelSelector={PLACEHOLDER}"
    phalanx.wait(lambda: not phalanx.cluster.request("GET", path)["items"], "the placeholders to go")
