"""Contradictory requests that passed admission because the webhook was down when they were created."""

import json

import pytest
from system import Object, Phalanx, one_line, pod, pod_group, scheduled_message

pytestmark = [pytest.mark.controlplane, pytest.mark.long]


def test_members_of_a_gang_that_cannot_be_read_say_why_and_start_nothing(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    phalanx.submit(pod_group("torn", 2))
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
    phalanx.submit(*twins)
    phalanx.wait(lambda: "network-topology-index" in scheduled_message(phalanx.pod("torn-b")), "the pods to say why")
    message = scheduled_message(phalanx.pod("torn-a"))
    assert message.startswith("gang default/torn: Pod default/torn-")
    assert not any(phalanx.nodes_of(["torn-a", "torn-b"]).values())
    phalanx.cluster.kubectl(
        "annotate", "pod", "torn-b", "gang.scheduling.koordinator.sh/network-topology-index=1", "--overwrite"
    )
    phalanx.await_bound(["torn-a", "torn-b"])


LEVELS = ("block", "rack", "row")


def topology(level: str) -> Object:
    levels = [{"name": level, "nodeLabel": f"example.com/{level}"}]
    named = {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Topology", "metadata": {"name": "datacenter"}}
    return {**named, "spec": {"levels": levels}}


def gang(level: str) -> Object:
    metadata = {"name": f"by-{level}", "namespace": "default"}
    spec = {"minMember": 2, "topology": "datacenter", "required": level}
    return {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": metadata, "spec": spec}


def test_a_gang_may_name_at_once_what_its_topology_has_just_got(phalanx: Phalanx) -> None:
    """Whether or not the webhook's caches have seen it yet."""
    for level in LEVELS:
        phalanx.submit(topology(level), gang(level))
    answer = phalanx.cluster.kubectl_result("apply", "-f", "-", stdin=json.dumps(gang("aisle")))
    assert '"aisle" is not a level of Topology datacenter; its levels are row' in one_line(answer.stderr)
