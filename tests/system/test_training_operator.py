"""The other kinds of Kubeflow's training operator, by Phalanx's keys and others': the real operator creates the pods.

Racks r1: n0 … n3, r2: n4 … n6. A pod fills a node, so that a gang of four fits in r1 alone. `test_real_operators` has
more tests of its PyTorchJob. If the operator sees a pod while it ends, the pod has failed for the operator, and with it
the workload, unless the role has `restartPolicy: OnFailure`. A TFJob and an XGBoostJob fail then in any case.
"""

import pytest
import yaml
from asking import DIALECTS, dialects, too_many
from replaced import delete_and_await_nothing, delete_and_await_successor
from system import Object, Phalanx
from two_racks import apply_two_racks
from workload_operators import ROWS

from controlplane.operator_processes import Running
from controlplane.recording import bound
from gangs.workloads.kind_table import WORKLOADS

pytestmark = pytest.mark.controlplane

R1 = ["n0", "n1", "n2", "n3"]
MENDED = ("PaddleJob", "JAXJob", "MPIJob")
"""The kinds of which the operator recreates a deleted pod."""
KINDS = ("TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob")
SHORT = ("TFJob", "MPIJob")
"""For `make test`: one operator makes the pods of all kinds but MPIJob's."""
ROLE, INDEX = (f"training.kubeflow.org/replica-{each}" for each in ("type", "index"))


@pytest.fixture
def racks(training_operator: Running, phalanx: Phalanx, dialect: str) -> Phalanx:
    """Seven nodes in two racks, a topology over them, and the operator's webhooks.

    The launchers of MPIJobs have a container that waits for the workers. It requests ephemeral storage, which the
    manifest does not show.
    """
    training_operator.register()
    return apply_two_racks(phalanx, 7, dialect, ephemeral_storage="64Gi")


def workload(kind: str, dialect: str, *, pods: int = 4) -> Object:
    """Return a workload of this number of pods in one rack, of which each fills a node.

    An MPIJob has the version of this operator.
    """
    text = yaml.safe_dump(ROWS[kind].manifest(), sort_keys=False)
    found: Object = yaml.safe_load(text.replace("cpu: '1'", "cpu: '6'"))
    found["apiVersion"] = "kubeflow.org/v1"
    (roles,) = (each for name, each in found["spec"].items() if name.endswith("ReplicaSpecs"))
    roles["Worker"]["replicas"] += pods - 4
    DIALECTS[dialect](found)
    return found


def path_of(kind: str) -> str:
    """Where the API server keeps it."""
    return f"/apis/kubeflow.org/v1/namespaces/default/{WORKLOADS['kubeflow.org', kind].plural}/w"


def nodes(phalanx: Phalanx) -> list[str]:
    """Where its pods are, in the order of their roles and ranks."""
    of = [(each["metadata"]["labels"], each["spec"].get("nodeName", "")) for each in phalanx.pods()]
    return [node for *_, node in sorted((labels.get(ROLE, ""), labels.get(INDEX, ""), node) for labels, node in of)]


@pytest.mark.long
@dialects
@pytest.mark.parametrize(
    "kind", [pytest.param(each, marks=() if each in SHORT else pytest.mark.long) for each in KINDS]
)
def test_it_starts_whole_in_order_and_goes(racks: Phalanx, kind: str, dialect: str) -> None:
    with racks.record() as recorder:
        racks.apply_once_told("gang default/w: 4 pods fit in r1: n0..3, proven optimal", workload(kind, dialect))
        racks.wait(lambda: nodes(racks) == R1, "all pods to be bound, in the order of their ranks")
        events = recorder.events
    complete = [number for number, event in enumerate(events) if event.type == "ADDED"][3]
    assert not any(bound(event) for event in events[:complete])
    racks.await_phase("w", "Placed")
    (owner,) = racks.gang("w")["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == (kind, "w")
    racks.cluster.request("DELETE", path_of(kind), {"propagationPolicy": "Background"})
    racks.wait(lambda: not racks.gang("w") and not racks.pods(), "the gang and its pods to go")


@pytest.mark.long
@dialects
@pytest.mark.parametrize("kind", KINDS)
def test_one_pod_too_many_and_none_starts(racks: Phalanx, kind: str, dialect: str) -> None:
    wanted = workload(kind, dialect, pods=5)
    with racks.record() as recorder:
        racks.apply_once_told("gang default/w: needs 5 pods", wanted)
        assert too_many(dialect) in racks.await_phase("w", "Unplaceable")["message"]
        racks.wait(lambda: len(racks.pods()) == 5, "all pods to be made")
        events = recorder.events
    assert not any(bound(event) for event in events)
    assert all(each["spec"]["schedulingGates"] for each in racks.pods())


@pytest.mark.long
@pytest.mark.parametrize("dialect", ["ours"])
@pytest.mark.parametrize("kind", MENDED)
def test_one_that_is_deleted_comes_back_to_its_place_beside_the_others(racks: Phalanx, kind: str) -> None:
    made = workload(kind, "ours")
    (roles,) = (each for name, each in made["spec"].items() if name.endswith("ReplicaSpecs"))
    for role in roles.values():
        role["restartPolicy"] = "OnFailure"
    racks.apply_once_told("gang default/w: 4 pods fit in r1: n0..3, proven optimal", made)
    racks.wait(lambda: nodes(racks) == R1, "all pods to be bound")
    racks.await_phase("w", "Placed")
    delete_and_await_successor(racks, racks.pod("w-worker-1"), R1)
    racks.await_phase("w", "Placed")
    delete_and_await_nothing(racks, lambda: racks.cluster.kubectl("delete", kind.lower(), "w", "--wait=false"))
