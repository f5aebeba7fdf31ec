"""Another system arrives in the cluster and leaves: whose pods are gated, and who is warned.

A system counts as present as soon as its admission webhook is registered. No process needs to answer, because the
webhook is registered for a kind that these tests do not use.
"""

from typing import Any

import pytest
from click.testing import CliRunner
from system import Object, Phalanx, all_bound, node, numbered, one_line, pod, pod_group, priority_class

from cli.main import group

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

GATES = [{"name": "phalanx.dev/gang"}]
CONFIGURATION = "koordinator-mutating-webhook-configuration"
PATH = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
SERVICE = {"name": "koordinator-webhook-service", "namespace": "koordinator-system", "path": "/mutate"}
KOORDINATOR: Object = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "MutatingWebhookConfiguration",
    "metadata": {"name": CONFIGURATION},
    "webhooks": [
        {
            "name": "melasticquota.koordinator.sh",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"service": SERVICE},
            "rules": [
                {
                    "apiGroups": ["scheduling.sigs.k8s.io"],
                    "apiVersions": ["v1alpha1"],
                    "operations": ["CREATE"],
                    "resources": ["elasticquotas"],
                }
            ],
        }
    ],
}
LEFT = f"is left to Koordinator, which runs in this cluster (MutatingWebhookConfiguration {CONFIGURATION})"


def dry_run(phalanx: Phalanx, manifest: Object) -> Object:
    """The object as it would come in."""
    found: Object = phalanx.cluster.request("POST", "/api/v1/namespaces/default/pods?dryRun=All", manifest)
    return found


def gated(phalanx: Phalanx) -> bool:
    """Whether a member of a Koordinator group would be gated now."""
    return bool(dry_run(phalanx, pod("probe", "later"))["spec"].get("schedulingGates") == GATES)


def events(phalanx: Phalanx, reason: str) -> list[str]:
    """The notes of all events of a reason."""
    items = phalanx.cluster.request("GET", "/apis/events.k8s.io/v1/events")["items"]
    return [each["note"] for each in items if each["reason"] == reason]


def test_its_workloads_are_left_alone_while_it_is_there(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    phalanx.submit(pod_group("begun", 3))
    phalanx.submit(*(pod(name, "begun") for name in numbered("begun", 2)))
    phalanx.await_phase("begun", "Waiting")

    phalanx.submit(KOORDINATOR)
    phalanx.wait(lambda: not gated(phalanx), "Koordinator to be noticed by the webhook")
    phalanx.wait(lambda: bool(events(phalanx, "SystemLeft")), "Koordinator to be noticed by the controller")
    assert LEFT.removeprefix("is ") in events(phalanx, "SystemLeft")[0]

    assert LEFT in one_line(phalanx.apply(pod_group("theirs", 2)))
    theirs = {**pod("theirs-0", "theirs"), "spec": {**pod("x")["spec"], "schedulerName": "koord-scheduler"}}
    assert LEFT in one_line(phalanx.apply(theirs))
    stored = phalanx.pod("theirs-0")
    assert stored["spec"]["schedulerName"] == "koord-scheduler"
    assert "schedulingGates" not in stored["spec"]
    assert not stored["metadata"].get("labels", {}).keys() & {"phalanx.dev/gang", "phalanx.dev/dialect"}

    with phalanx.record() as recorder:  # the member that was still missing of a gang that had begun
        phalanx.submit(pod("begun-2", "begun"))
        recorder.wait_for(all_bound(numbered("begun", 3)))
    phalanx.await_phase("begun", "Placed")
    assert phalanx.gang("theirs") == {}
    why = ["why", "default/theirs", "--kubeconfig", str(phalanx.cluster.kubeconfig)]
    assert f"; gangs are {LEFT.removeprefix('is ')}" in CliRunner().invoke(group, why).output

    phalanx.cluster.kubectl("annotate", "mutatingwebhookconfiguration", "zz-phalanx", "phalanx.dev/adopt=koordinator")
    phalanx.wait(lambda: gated(phalanx), "Koordinator to be adopted")
    phalanx.cluster.kubectl("annotate", "mutatingwebhookconfiguration", "zz-phalanx", "phalanx.dev/adopt-")
    phalanx.wait(lambda: not gated(phalanx), "Koordinator to be left alone again")

    phalanx.cluster.request("DELETE", f"{PATH}/{CONFIGURATION}")
    phalanx.wait(lambda: gated(phalanx), "Koordinator to have gone")
    phalanx.submit(pod_group("ours", 2), *(pod(name, "ours") for name in numbered("ours", 2)))
    phalanx.await_bound(numbered("ours", 2))
    phalanx.wait(lambda: bool(events(phalanx, "SystemTaken")), "the controller to say that Koordinator has gone")


def test_its_pods_are_never_evicted_for_a_gang(phalanx: Phalanx) -> None:
    low: dict[str, Any] = {"priorityClassName": "low", "nodeSelector": {"kubernetes.io/hostname": "node-0"}}
    phalanx.submit(priority_class("low", -5), node("node-0", "s", "b"), KOORDINATOR)
    phalanx.cluster.await_nodes(["node-0"])
    phalanx.wait(lambda: not gated(phalanx), "Koordinator to be noticed")
    phalanx.submit(pod("theirs", "group", **low))
    phalanx.await_bound(["theirs"])
    gang = {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": {"name": "ours", "namespace": "default"}}
    member = pod("ours-0")
    member["metadata"]["labels"] = {"phalanx.dev/gang": "ours"}
    phalanx.submit({**gang, "spec": {"minMember": 1}}, member)
    assert phalanx.await_phase("ours", "Unplaceable")
    phalanx.cluster.request("DELETE", f"{PATH}/{CONFIGURATION}")
    phalanx.await_bound(["ours-0"])
    assert phalanx.pod("theirs").get("code") == 404


def test_a_job_in_a_queue_of_kueue_stays_suspended_for_it(phalanx: Phalanx) -> None:
    entry = {**KOORDINATOR["webhooks"][0], "name": "mclusterqueue.kb.io"}
    kueue = {**KOORDINATOR, "metadata": {"name": "kueue-mutating-webhook-configuration"}, "webhooks": [entry]}
    phalanx.submit(kueue)
    labels = {"kueue.x-k8s.io/queue-name": "q"}
    place = {"kueue.x-k8s.io/podset-required-topology": "rack"}
    template = {"metadata": {"annotations": place}, "spec": {**pod("x")["spec"], "restartPolicy": "Never"}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "default", "labels": labels},
        "spec": {"parallelism": 2, "completions": 2, "suspend": True, "template": template},
    }
    probe = pod("probe")
    probe["metadata"]["annotations"] = place
    phalanx.wait(lambda: "schedulingGates" not in dry_run(phalanx, probe)["spec"], "Kueue to be noticed")
    assert "Job default/train: metadata: is left to Kueue, which runs in this cluster" in one_line(phalanx.apply(job))
    assert "configured" not in phalanx.apply(job)
    stored = phalanx.cluster.request("GET", "/apis/batch/v1/namespaces/default/jobs/train")
    assert stored["spec"]["suspend"] is True
    assert stored["spec"]["template"]["metadata"]["annotations"] == place
    assert not stored["spec"]["template"]["metadata"].get("labels", {}).keys() & {"kueue.x-k8s.io/queue-name"}
