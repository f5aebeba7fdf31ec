"""`/v1/gangs` names the dialects that are ceded to a system that runs in the cluster."""

from pictures import StillPicture, pod, pod_group

from webhook.live_view import data

KOORDINATOR = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "koordinator-validating-webhook-configuration"},
    "webhooks": [{"name": "vpod.koordinator.sh"}],
}


def test_gangs_of_a_system_that_runs_here_are_not_listed_but_the_system_is() -> None:
    members = [pod("p", labels={"pod-group.scheduling.sigs.k8s.io": "llm"})]
    found = data.gangs(StillPicture([pod_group(), KOORDINATOR], pods=members))
    assert found["gangs"] == []
    assert found["left"] == {
        "koordinator": "Koordinator, which runs in this cluster "
        "(ValidatingWebhookConfiguration koordinator-validating-webhook-configuration)"
    }
    assert data.gangs(StillPicture([pod_group()], pods=members))["left"] == {}
