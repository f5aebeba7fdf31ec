"""Requests that contradict each other and got past admission, because it was not there when they came."""

import pytest
from system import Phalanx, pod, pod_group, scheduled_message

pytestmark = pytest.mark.controlplane


def test_members_of_a_gang_that_cannot_be_read_say_why_and_start_nothing(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    phalanx.apply(pod_group("torn", 2))
    webhooks = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations"
    for kind in ("mutating", "validating"):
        phalanx.cluster.request("DELETE", webhooks.format(kind))
    probe, path = pod("probe", "torn"), "/api/v1/namespaces/default/pods?dryRun=All"
    phalanx.wait(
        lambda: "schedulingGates" not in phalanx.cluster.request("POST", path, probe)["spec"], "admission to be gone"
    )
    twins = [pod(name, "torn", schedulingGates=[{"name": "phalanx.dev/gang"}]) for name in ("torn-a", "torn-b")]
    for each in twins:
        each["metadata"]["annotations"] = {"gang.scheduling.koordinator.sh/network-topology-index": "0"}
    phalanx.apply(*twins)
    phalanx.wait(lambda: "network-topology-index" in scheduled_message(phalanx.pod("torn-b")), "the pods to say why")
    message = scheduled_message(phalanx.pod("torn-a"))
    assert message.startswith("gang default/torn: Pod default/torn-")
    assert not any(phalanx.nodes_of(["torn-a", "torn-b"]).values())
    phalanx.cluster.kubectl(
        "annotate", "pod", "torn-b", "gang.scheduling.koordinator.sh/network-topology-index=1", "--overwrite"
    )
    phalanx.await_bound(["torn-a", "torn-b"])
