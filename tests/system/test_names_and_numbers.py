"""Gangs with invalid numbers, and the names by which kubectl distinguishes the kinds of several systems."""

import pytest
from system import Object, Phalanx

from controlplane.control_plane import ControlPlane
from controlplane.deployment import Deployment

pytestmark = pytest.mark.controlplane

REFUSAL = (
    "Gang default/{}: spec.minMember: is not set, and there are no podSets: the gang has no number; write how many "
    "pods must start together, or spec.podSets with the count of each set"
)


def gang(name: str, **spec: object) -> Object:
    """A Gang."""
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": metadata, "spec": spec}


@pytest.mark.long
def test_a_gang_of_no_number_is_refused_and_one_that_exists_is_told_how_to_be_mended(
    deployment: Deployment, cluster: ControlPlane
) -> None:
    phalanx = Phalanx(cluster, deployment)
    phalanx.ensure_servers()
    phalanx.submit(gang("before"))  # the webhook is not registered yet
    assert phalanx.await_phase("before", "Invalid")["message"] == REFUSAL.format("before")
    deployment.register_webhook()
    phalanx.await_refusal(REFUSAL.format("after"), gang("after", required="rack"))
    phalanx.submit(gang("before", minMember=1))
    assert phalanx.await_phase("before", "Waiting")["message"] == "waits for 1 more pod: 0 of 1 exist"


FULL_NAMES = (
    "gangs.phalanx.dev",
    "topologies.phalanx.dev",
    "topologies.kueue.x-k8s.io",
    "topologies.kai.scheduler",
    "clusternetworktopologies.scheduling.koordinator.sh",
    "podgroups.scheduling.sigs.k8s.io",
    "podgroups.scheduling.run.ai",
)


@pytest.mark.long
def test_full_names_answer_for_one_kind_and_the_category_for_ours(phalanx: Phalanx) -> None:
    kubectl = phalanx.cluster.kubectl
    levels = {"levels": [{"name": "rack", "nodeLabel": "example.com/rack"}]}
    metadata = {"name": "net"}
    phalanx.submit({"apiVersion": "phalanx.dev/v1alpha1", "kind": "Topology", "metadata": metadata, "spec": levels})
    phalanx.submit(gang("llm", minMember=1))
    for name in FULL_NAMES:
        kubectl("get", name)
    ours = kubectl("get", "phalanx", "-A", "-o", "name").split()
    assert ours == ["gang.phalanx.dev/llm", "topology.phalanx.dev/net"]
    assert kubectl("get", "gangs,topologies.phalanx.dev", "-A", "-o", "name").split() == ours
