"""The overlay without a webhook: policies in the API server gate members, and gangs still run to their end."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
import yaml
from system import EXAMPLES, Object, Phalanx, pod, scheduled_message
from test_five_dialects import SIZE, SYSTEMS, cluster_objects, job, node, requests

from controlplane.control_plane import ControlPlane
from controlplane.deployment import Deployment
from controlplane.rendering import MANIFESTS
from kube import keys

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

POLICIES = [str(MANIFESTS / "admission-policy" / f"{name}.yaml") for name in ("pods", "jobs", "bindings")]
QUEUE = "kueue.x-k8s.io/queue-name"
RUNAI = "kai.scheduler/topology-required-placement"
MAKERS: tuple[tuple[str, str, Object], ...] = (
    ("apps/v1", "StatefulSet", {}),
    ("apps/v1", "ReplicaSet", {}),
    ("apps/v1", "StatefulSet", {"leaderworkerset.sigs.k8s.io/name": "lws"}),
    ("kubeflow.org/v1", "PyTorchJob", {}),
    ("example.com/v1", "StatefulSet", {}),
    ("v1", "Node", {}),
)
"""Owners whose pods are one gang, and owners whose pods are not."""
PATHS = {"Pod": "/api/v1/namespaces/{}/pods", "Job": "/apis/batch/v1/namespaces/{}/jobs"}


@pytest.fixture
def by_policy(deployment: Deployment, cluster: ControlPlane) -> Iterator[Phalanx]:
    """A clean cluster whose API server holds the policies; only the controller runs."""
    running = Phalanx(cluster, deployment)
    running.ensure_servers()
    cluster.program("webhook").kill()
    apply_policies(running)
    yield running
    running.show_logs()


def apply_policies(phalanx: Phalanx) -> None:
    """Apply the policies, and wait until the API server enforces them."""
    arguments = [part for file in POLICIES for part in ("-f", file)]
    phalanx.cluster.kubectl("apply", "--server-side", "--validate=strict", *arguments)
    probe = pod("probe", "some-group", schedulerName="nobody")
    phalanx.wait(lambda: "would bind this pod without its gang" in str(tried(phalanx, probe)), "the policies to hold")
    phalanx.wait(lambda: bool(marks(tried(phalanx, job("probe", labels={QUEUE: "q"})))["template"]), "those of Jobs")


def tried(phalanx: Phalanx, manifest: Object) -> Object:
    """Return the object as the API server would store it, or its refusal."""
    path = PATHS[manifest["kind"]].format(manifest["metadata"].get("namespace", "default"))
    answer: Object = phalanx.cluster.request("POST", f"{path}?dryRun=All", manifest)
    return answer


def marks(stored: Object) -> dict[str, Any]:
    """Return all fields that admission may have changed."""
    spec = stored.get("spec", {})
    return {
        "labels": _written(stored.get("metadata", {})),
        "annotations": stored.get("metadata", {}).get("annotations"),
        "gates": spec.get("schedulingGates"),
        "scheduler": spec.get("schedulerName"),
        "suspend": spec.get("suspend"),
        "template": _written(spec.get("template", {}).get("metadata", {})),
    }


def _written(metadata: Object) -> dict[str, str]:
    """The labels but for those by which a Job knows its pods: the API server writes them after admission."""
    labels: dict[str, str] = metadata.get("labels", {})
    return {key: value for key, value in labels.items() if not key.endswith(("controller-uid", "job-name"))} | {
        key: labels[key] for key in labels if key == "network-topology-job-name"
    }


def of_examples() -> Iterator[Object]:
    """Every pod and Job of the guides."""
    for path in sorted(EXAMPLES.rglob("*.yaml")):
        for each in yaml.safe_load_all(path.read_text()):
            if (each or {}).get("kind") in PATHS and "nodeName" not in each["spec"] and "metadata" in each:
                yield each | {"metadata": each["metadata"] | {"namespace": "default"}}


def annotated(manifest: Object, **annotations: str) -> Object:
    """Return a copy of the manifest with more annotations."""
    made = deepcopy(manifest)
    made["metadata"].setdefault("annotations", {}).update(annotations)
    return made


def of_our_own() -> Iterator[Object]:
    """Yield pods and Jobs at the borders of what each dialect treats as a member."""
    yield pod("stranger")
    yield pod("empty", "")
    yield annotated(pod("both", "group"), **{"scheduling.run.ai/pod-group": "other"})
    yield annotated(pod("policy"), **{"scheduling.run.ai/topology-policy": "racks"})
    yield annotated(pod("named"), **{"pod-group-name": "a-name", "scheduling.run.ai/pod-group": ""})
    place = {RUNAI: "rack", "kai.scheduler/batch-min-member": "2"}
    for api_version, kind in (("apps/v1", "StatefulSet"), ("batch/v1", "Job"), ("batch.volcano.sh/v1alpha1", "Job")):
        owned = annotated(pod(f"runai-of-a-{kind.lower()}-of-{api_version.partition('/')[0]}"), **place)
        owner = {"apiVersion": api_version, "kind": kind, "name": "workload", "uid": "1", "controller": True}
        owned["metadata"]["ownerReferences"] = [owner]
        yield owned
    for api_version, kind, labels in MAKERS:
        for number, key in enumerate(("kueue.x-k8s.io/podset-required-topology", "scheduling.run.ai/topology-policy")):
            owned = annotated(pod(f"{number}-of-a-{kind.lower()}"), **{key: "rack"})
            owner = {"apiVersion": api_version, "kind": kind, "name": "workload", "uid": "1", "controller": True}
            owned["metadata"] |= {"ownerReferences": [owner], "labels": dict(labels)}
            yield owned
    yield annotated(pod("runai-alone"), **{RUNAI: "rack"})
    yield annotated(pod("runai-in-a-group"), **{RUNAI: "rack", "pod-group-name": "group"})
    yield annotated(pod("runai-skipped"), **{RUNAI: "rack", "kai.scheduler/skip-podgrouper": "true"})
    yield annotated(pod("kueue"), **{"kueue.x-k8s.io/podset-preferred-topology": "rack"})
    yield annotated(pod("light"), **{"gang.scheduling.koordinator.sh/name": "not a label value, but a name"})
    yield pod("koordinator", "group", schedulerName="koord-scheduler")
    yield pod("another-systems-scheduler", "group", schedulerName="kai-scheduler")
    yield pod("foreign", "group", schedulerName="foreign")
    yield pod("foreign-stranger", schedulerName="foreign")
    yield pod("gated", "group", schedulingGates=[{"name": "example.com/mine"}])
    yield pod("bound", "group", nodeName="n0")
    yield job("plain")
    yield job("asks", annotations={keys.GANG: "true"})
    yield job("does-not-ask", annotations={keys.GANG: "false", keys.REQUIRED: "rack"})
    yield job("runai", annotations={RUNAI: "rack"})
    yield job("runai-in-template", template={"annotations": {RUNAI: "rack"}})
    yield job("skipped", annotations={RUNAI: "rack", "kai.scheduler/skip-podgrouper": "true"})
    yield job("queued", labels={QUEUE: "team"})
    for suspend in (True, False):
        queued = job("queued-and-suspended", labels={QUEUE: "team"})
        queued["spec"]["suspend"] = suspend
        yield queued
        for maker in ("jobset.x-k8s.io/v1alpha2", "JobSet"), ("batch/v1", "CronJob"):
            made = deepcopy(queued)
            made["metadata"]["name"] = f"{'suspended-' if suspend else ''}of-a-{maker[1].lower()}"
            owner = {"apiVersion": maker[0], "kind": maker[1], "name": "workload", "uid": "1", "controller": True}
            made["metadata"]["ownerReferences"] = [owner]
            yield made
    suspended = job("suspended")
    suspended["spec"]["suspend"] = True
    yield suspended
    yield from (each for each in requests() if each["kind"] in PATHS)


def in_automatic_namespace() -> Iterator[Object]:
    """Jobs of a namespace that makes them gangs."""
    for each in (
        job("automatic"),
        job("refuses", annotations={keys.GANG: "false"}),
        job("claimed", template={"labels": {"pod-group.scheduling.sigs.k8s.io": "group"}}),
        job("queued", labels={QUEUE: "team"}),
        job("alone"),
    ):
        each["metadata"]["namespace"] = "automatic"
        if each["metadata"]["name"] == "alone":
            each["spec"] |= {"parallelism": 1, "completions": 1}
        yield each


def test_policies_do_what_the_webhook_does(phalanx: Phalanx) -> None:
    labels = {keys.AUTOMATIC: "true"}
    phalanx.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "automatic", "labels": labels}})
    phalanx.apply(*cluster_objects())
    everything = [*of_examples(), *of_our_own(), *in_automatic_namespace()]
    phalanx.wait(lambda: _has_the_account(phalanx, "automatic"), "the namespace to be ready")
    by_webhook = [tried(phalanx, each) for each in everything]
    for kind in ("mutating", "validating"):
        phalanx.cluster.request("DELETE", f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations")
    apply_policies(phalanx)
    by_policy = [tried(phalanx, each) for each in everything]
    compared = 0
    for wanted, webhooks, policies in zip(everything, by_webhook, by_policy, strict=True):
        if "would bind this pod without its gang" in str(policies.get("message")):
            assert marks(webhooks)["scheduler"] == keys.STOCK_SCHEDULER  # which policies cannot know to be right
        elif webhooks["kind"] != "Status":  # with policies alone, a fault that the webhook refuses shows on the Gang
            assert marks(policies) == marks(webhooks), wanted["metadata"]["name"]
            compared += 1
    assert compared > len(everything) * 2 // 3


def _has_the_account(phalanx: Phalanx, namespace: str) -> bool:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    return bool(phalanx.cluster.request("GET", path).get("kind") == "ServiceAccount")


def test_gangs_of_every_system_run_to_their_end_with_no_webhook_at_all(by_policy: Phalanx) -> None:
    by_policy.cluster.add_nodes(node(number) for number in range(2 * len(SYSTEMS) + 2))
    by_policy.apply(*cluster_objects())
    with by_policy.record("/api/v1/namespaces/default/pods") as recorder:
        by_policy.apply(*requests())
        by_policy.wait(lambda: len(bound_members(by_policy)) == SIZE * len(SYSTEMS), "all gangs to be bound")
        created = {event.name: event for event in reversed(recorder.events) if event.type == "ADDED"}
    assert len(created) == SIZE * len(SYSTEMS)
    for event in created.values():
        assert {"name": keys.GATE} in event.object["spec"]["schedulingGates"], event.name
    by_policy.apply(*requests())  # passes: the scheduler's name of a live pod is put back
    text = yaml.safe_dump_all(requests())
    shown = by_policy.cluster.kubectl_result("diff", "-f", "-", stdin=text)
    assert (shown.returncode, shown.stdout) == (0, "")


def bound_members(phalanx: Phalanx) -> list[str]:
    """The pods that have a node."""
    return [each["metadata"]["name"] for each in phalanx.pods() if each["spec"].get("nodeName")]


def test_a_wrong_request_is_told_by_its_pods_which_stay_gated(by_policy: Phalanx) -> None:
    by_policy.cluster.add_nodes(node(number) for number in range(2))
    by_policy.apply(*cluster_objects())
    by_policy.apply(job("wrong", annotations={keys.REQUIRED: "no-such-level", keys.TOPOLOGY: "own"}))
    by_policy.wait(lambda: len(by_policy.pods()) == SIZE, "its pods")
    by_policy.wait(lambda: all("no-such-level" in scheduled_message(each) for each in by_policy.pods()), "their words")
    assert not bound_members(by_policy)


def test_a_gated_member_stays_in_its_gang(by_policy: Phalanx) -> None:
    by_policy.apply(pod("member", "group"))
    label = "pod-group.scheduling.sigs.k8s.io"
    answer = by_policy.cluster.kubectl_result("label", "pod", "member", f"{label}-")
    assert "would leave the gang" in answer.stderr
    patch = yaml.safe_dump({"metadata": {"labels": {label: None}}, "spec": {"schedulingGates": []}})
    by_policy.cluster.kubectl("patch", "pod", "member", "--type=merge", "--patch", patch)
    assert "schedulingGates" not in by_policy.pod("member")["spec"]
