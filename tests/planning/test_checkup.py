"""The findings of the doctor, one fault of the cluster in each test.

rack r1: n1, n2      rack r2: n3      each in block b1, labelled by hand
"""

from datetime import UTC, datetime
from typing import Any

import msgspec

from cluster.capturing import snapshot_of
from cluster.schedulers import tried_of
from gangs.sources import Sources
from kube.keys import GATE
from kube.objects import Node, Pod
from planning.doctor.checkup import check_up
from planning.doctor.finding import Finding, Severity

BLOCK, RACK = "example.com/block", "example.com/rack"
TOPOLOGY = {
    "apiVersion": "phalanx.dev/v1alpha1",
    "kind": "Topology",
    "metadata": {"name": "dc"},
    "spec": {"levels": [{"name": "block", "nodeLabel": BLOCK}, {"name": "rack", "nodeLabel": RACK}]},
}


NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)


def node(name: str, **labels: str) -> Node:
    """A node with these labels of block and rack."""
    keys = {"block": BLOCK, "rack": RACK}
    return msgspec.convert({"metadata": {"name": name, "labels": {keys[k]: v for k, v in labels.items()}}}, Node)


def pod(name: str, gang: str = "", *, gated: bool = False) -> Pod:
    """A pending pod."""
    spec: dict[str, Any] = {"schedulingGates": [{"name": GATE}]} if gated else {}
    labels = {"phalanx.dev/gang": gang} if gang else {}
    return msgspec.convert({"metadata": {"name": name, "namespace": "default", "labels": labels}, "spec": spec}, Pod)


HEALTHY = [node("n1", block="b1", rack="r1"), node("n2", block="b1", rack="r1"), node("n3", block="b1", rack="r2")]


def found(nodes: list[Node], *objects: dict[str, Any], pods: tuple[Pod, ...] = ()) -> list[Finding]:
    """Return the doctor's findings for a cluster."""
    keyed = {
        (
            each["apiVersion"].split("/")[0],
            each["kind"],
            each["metadata"].get("namespace", ""),
            each["metadata"]["name"],
        ): each
        for each in objects
    }
    return check_up(snapshot_of(nodes, pods, gate=GATE), Sources(pods, keyed, tried=tried_of(pods)), NOW)


def ill(findings: list[Finding]) -> list[str]:
    """Return the texts of the findings that report a fault."""
    return [f"{each.subject}: {each.text}" for each in findings if each.severity is not Severity.OK]


def test_a_healthy_cluster_has_nothing_but_good_news() -> None:
    findings = found(HEALTHY, TOPOLOGY)
    assert not ill(findings)
    assert [each.text for each in findings] == ["3 nodes, all of them inside", "no gang uses it now"]


def test_nodes_without_a_label_are_named_with_the_label() -> None:
    text = "outside it for want of label example.com/rack: never used by gangs that name a level of it"
    nodes = [*HEALTHY, node("n4", block="b1"), node("n5", block="b1")]
    assert ill(found(nodes, TOPOLOGY)) == [f"Topology dc: 2 nodes (n4..5) lie {text}"]


def test_a_domain_that_lies_under_two_parents_is_most_likely_mislabelled() -> None:
    assert ill(found([*HEALTHY, node("n4", block="b2", rack="r1")], TOPOLOGY)) == [
        'Topology dc: rack "r1" lies under b1 (2 nodes) and b2 (1 nodes): these count as different domains'
    ]


def test_a_topology_of_no_node_is_an_error() -> None:
    findings = found([node("n1", block="b1")], TOPOLOGY)
    assert [each.text for each in findings if each.severity is Severity.ERROR] == ["no node belongs to it"]


def test_a_cluster_without_topologies_is_told_what_to_do() -> None:
    assert ill(found([node("n1")])) == ["topologies: there is none: gangs are packed by node only"]


def test_a_request_for_a_level_that_is_not_there_is_an_error() -> None:
    spec = {"minMember": 1, "required": "spine"}
    metadata = {"name": "llm", "namespace": "default"}
    gang = {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": metadata, "spec": spec}
    assert any("spine" in each and each.startswith("Gang default/llm") for each in ill(found(HEALTHY, TOPOLOGY, gang)))


def test_pods_that_are_held_for_nothing_and_pods_that_slipped_past_are_named() -> None:
    texts = ill(found(HEALTHY, TOPOLOGY, pods=(pod("held", gated=True), pod("slipped", "llm"))))
    assert "Pod default/held: is gated but names no gang: nothing will start it" in texts
    assert any(each.startswith("Pod default/slipped: names gang default/llm but was never gated") for each in texts)


KUEUE = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "kueue-validating-webhook-configuration"},
    "webhooks": [{"name": "vclusterqueue.kb.io"}],
}


def ours(**annotations: str) -> dict[str, Any]:
    """Our own webhook configuration with these annotations."""
    written = {f"phalanx.dev/{key}": text for key, text in annotations.items()}
    metadata = {"name": "zz-phalanx", "annotations": written}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": metadata,
    }


def test_a_system_that_runs_beside_us_is_named_with_what_is_left_to_it() -> None:
    (finding,) = (each for each in found(HEALTHY, TOPOLOGY, KUEUE) if each.subject == "Kueue")
    assert finding.severity is Severity.WARNING
    assert finding.text == (
        "gangs asked for in the keys of kueue are left to Kueue, which runs in this cluster "
        "(ValidatingWebhookConfiguration kueue-validating-webhook-configuration)"
    )
    assert finding.remedy.endswith("annotate MutatingWebhookConfiguration zz-phalanx with phalanx.dev/adopt: kueue")


def test_a_system_that_is_adopted_is_named_too() -> None:
    (finding,) = (each for each in found(HEALTHY, TOPOLOGY, KUEUE, ours(adopt="kueue")) if each.subject == "Kueue")
    assert finding.severity is Severity.OK


def test_a_choice_that_names_nobody_is_an_error() -> None:
    findings = found(HEALTHY, TOPOLOGY, ours(adopt="kueu,all", leave="slurm"))
    assert [each.text for each in findings if each.severity is Severity.ERROR] == [
        'annotation phalanx.dev/adopt names "kueu", which is no system that Phalanx knows',
        'annotation phalanx.dev/leave names "slurm", which is no system that Phalanx knows',
    ]


def test_a_pod_that_is_left_to_its_system_was_not_missed() -> None:
    theirs = msgspec.convert(
        {"metadata": {"name": "p", "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "q"}}}, Pod
    )
    assert any("was never gated" in each.text for each in found(HEALTHY, TOPOLOGY, pods=(theirs,)))
    assert not any("was never gated" in each.text for each in found(HEALTHY, TOPOLOGY, KUEUE, pods=(theirs,)))


def waiting(name: str, scheduler: str, since: str = "2026-01-01T00:00:00Z", **meta: Any) -> Pod:
    """A pod that waits for its scheduler since then."""
    metadata = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": since, **meta}
    return msgspec.convert({"metadata": metadata, "spec": {"schedulerName": scheduler}}, Pod)


def test_pods_of_no_gang_that_wait_for_a_scheduler_which_is_not_there_are_named_and_counted() -> None:
    pods = [waiting(f"p{number}", "kai-scheduler") for number in range(7)]
    young = waiting("young", "kai-scheduler", "2026-01-01T00:00:45Z")
    alone, stock = waiting("lone", "koord-scheduler"), waiting("stock", "default-scheduler")
    said = [each for each in ill(found(HEALTHY, TOPOLOGY, pods=(*pods, young, alone, stock))) if "Scheduler" in each]
    assert said == [
        (
            "Scheduler kai-scheduler: does not run here, and 7 pods of no gang wait for it: "
            "default/p0, default/p1, default/p2, default/p3, default/p4 and 2 more"
        ),
        "Scheduler koord-scheduler: does not run here, and 1 pod of no gang waits for it: default/lone",
    ]


def test_members_that_were_let_go_and_that_nobody_tries_are_named() -> None:
    labels = {"phalanx.dev/gang": "g", "phalanx.dev/dialect": "phalanx"}
    note = {"phalanx.dev/released": "2026-01-01T00:00:20Z"}
    pods = [waiting(name, "volcano", labels=labels, annotations=note) for name in ("a", "b")]
    told = ill(found(HEALTHY, TOPOLOGY, pods=tuple(pods)))
    assert "Gang default/g: volcano has not tried 2 pods that were released: default/a, default/b" in told
