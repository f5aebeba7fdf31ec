"""Pods of gangs that request an extended resource of a DeviceClass: the request becomes a claim at CREATE.

n1, n2: 8 cpu, no allocatable of the resource.
"""

from typing import Any

import jsonpatch
import msgspec
import pytest
from pictures import Manifest, StillPicture, node, pod

from cluster.devices.extended_resources import as_written, template_of
from gangs.manifests import pod_of
from gangs.model import Gang
from kube.keys import CONVERTED, IGNORE_CLAIMS
from kube.requests import pod_requests
from webhook.admission import arriving_pods
from webhook.admission.reviews import Admitted
from webhook.errors import Unavailable

GPU = "example.com/gpu"
LABELS = {"phalanx.dev/gang": "llm"}
CLASSES = [
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {"extendedResourceName": GPU},
    }
]
NODES = [node("n1"), node("n2")]
PICTURE = StillPicture(nodes=NODES, device_classes=CLASSES)
JOB_OWNER = [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "1", "controller": True}]


def unforetold(_gang: Gang, _whole: object) -> tuple[str, ...]:
    """Return no forecast."""
    return ()


def asking(name: str = "p0", resource: str = GPU, amount: str = "2", **more: Any) -> Manifest:
    """A pod of a gang that requests the resource, with the defaults that the API server sets."""
    found = pod(name, labels=LABELS, **more)
    asked = {resource: amount}
    found["spec"]["containers"][0]["resources"] = {"limits": asked, "requests": {"cpu": "1", **asked}}
    return found


def created(manifest: Manifest, picture: StillPicture = PICTURE) -> tuple[Manifest, tuple[str, ...]]:
    """Return the pod as it is stored, and the warnings."""
    decision = arriving_pods.created(manifest, picture, unforetold)
    assert isinstance(decision, Admitted), decision
    stored: Manifest = jsonpatch.JsonPatch(decision.patch).apply(manifest)
    return stored, decision.warnings


def template_name(stored: Manifest) -> str:
    """The template that the stored pod names."""
    (entry,) = stored["spec"]["resourceClaims"]
    assert entry["name"] == "phalanx-extended-resources"
    name: str = entry["resourceClaimTemplateName"]
    return name


def test_the_request_becomes_a_claim_of_the_container() -> None:
    stored, warnings = created(asking())
    assert stored["spec"]["containers"][0]["resources"] == {
        "limits": {},
        "requests": {"cpu": "1"},
        "claims": [{"name": "phalanx-extended-resources", "request": "container-0-request-1"}],
    }
    template = template_of(pod_of(stored))
    assert template is not None
    assert template.metadata.name == template_name(stored)
    request = {"name": "container-0-request-1", "exactly": {"deviceClassName": "gpu", "count": 2}}
    assert msgspec.json.decode(msgspec.json.encode(template.spec.spec)) == {"devices": {"requests": [request]}}
    assert "the requests for example.com/gpu (DeviceClass gpu) became a ResourceClaim" in " ".join(warnings)


def test_equal_pods_share_a_template_and_others_have_another_one() -> None:
    first, second, third = (created(asking(f"p{at}", amount=amount))[0] for at, amount in enumerate("224"))
    assert template_name(first) == template_name(second) != template_name(third)


def test_a_pod_of_a_controller_gets_no_warning() -> None:
    manifest = asking()
    manifest["metadata"]["ownerReferences"] = JOB_OWNER
    stored, warnings = created(manifest)
    assert template_name(stored)
    assert "ResourceClaim" not in " ".join(warnings)


def test_a_second_call_changes_nothing() -> None:
    stored, _ = created(asking())
    again, warnings = created(stored)
    assert again == stored
    assert CONVERTED not in " ".join(warnings)


def test_a_claim_entry_with_the_name_of_conversion_stays_the_users() -> None:
    """The API server refuses two entries of one name, so conversion adds its entry under another name."""
    entry = {"name": "phalanx-extended-resources", "resourceClaimTemplateName": "theirs"}
    before = asking()
    before["spec"]["resourceClaims"] = [entry]
    stored, _ = created(before)
    of_user, of_conversion = stored["spec"]["resourceClaims"]
    assert of_user == entry
    assert of_conversion["name"] == "phalanx-extended-resources-2"
    claims = stored["spec"]["containers"][0]["resources"]["claims"]
    assert claims == [{"name": "phalanx-extended-resources-2", "request": "container-0-request-1"}]
    template = template_of(pod_of(stored))
    assert template is not None
    assert template.metadata.name == of_conversion["resourceClaimTemplateName"]
    assert created(stored)[0] == stored


def test_requests_that_another_webhook_adds_later_join_the_claim() -> None:
    """The API server calls the webhook again if another webhook has changed the pod (reinvocationPolicy)."""
    stored, _ = created(asking())
    sidecar = {"name": "sidecar", "image": "i", "resources": {"limits": {GPU: "1"}, "requests": {GPU: "1"}}}
    stored["spec"]["containers"].append(sidecar)
    again, _ = created(stored)
    both = asking()
    both["spec"]["containers"].append({**sidecar, "resources": {"limits": {GPU: "1"}, "requests": {GPU: "1"}}})
    assert again == created(both)[0]


def test_the_name_that_every_device_class_has_of_its_own() -> None:
    stored, _ = created(asking(resource="deviceclass.resource.kubernetes.io/gpu"))
    assert template_name(stored)


def with_plugin() -> list[Manifest]:
    """The nodes, one of which has the resource by a device plugin."""
    there = node("n2")
    there["status"]["allocatable"][GPU] = "8"
    return [node("n1"), there]


@pytest.mark.parametrize(
    "picture",
    [
        StillPicture(nodes=NODES, device_classes=[]),
        StillPicture(nodes=NODES),
        StillPicture(nodes=with_plugin(), device_classes=CLASSES),
    ],
    ids=["no class", "claims are not read", "a node has the resource"],
)
def test_the_request_stays_where_no_device_class_alone_provides_it(picture: StillPicture) -> None:
    stored, _ = created(asking(), picture)
    assert "resourceClaims" not in stored["spec"]
    assert CONVERTED not in stored["metadata"].get("annotations", {})
    assert stored["spec"]["containers"][0]["resources"]["limits"] == {GPU: "2"}


def test_the_request_stays_if_the_user_ignores_claims() -> None:
    manifest = asking()
    manifest["metadata"]["annotations"] = {IGNORE_CLAIMS: "true"}
    assert "resourceClaims" not in created(manifest)[0]["spec"]


def test_a_pod_waits_until_the_classes_are_read() -> None:
    picture = StillPicture(synced=False, listed=("pods", "configmaps"), device_classes=CLASSES)
    with pytest.raises(Unavailable, match="which extended resources DeviceClasses provide"):
        created(asking(), picture)


def test_the_requests_as_written_are_known_from_the_stored_pod() -> None:
    """A user who edits the annotation changes nothing, because the template's name is a digest of its requests."""
    before = asking()
    stored, _ = created(before)
    assert pod_requests(as_written(pod_of(stored))) == pod_requests(pod_of(before))
    edited = stored["metadata"]["annotations"][CONVERTED].replace('"gpu",2]', '"gpu",1]')
    stored["metadata"]["annotations"][CONVERTED] = edited
    assert template_of(pod_of(stored)) is None
    assert as_written(pod_of(stored)) == pod_of(stored)


@pytest.mark.parametrize("amount", ["2", "3"])
def test_the_manifest_of_a_bare_pod_can_be_applied_again(amount: str) -> None:
    """`kubectl apply` puts the request back, and the API server its default. Another amount stays, and is refused."""
    stored, _ = created(asking())
    again = msgspec.json.decode(msgspec.json.encode(stored))
    resources = again["spec"]["containers"][0]["resources"]
    resources["limits"], resources["requests"] = {GPU: amount}, {"cpu": "1", GPU: amount}
    decision = arriving_pods.updated(again, stored, PICTURE)
    assert isinstance(decision, Admitted)
    assert (jsonpatch.JsonPatch(decision.patch).apply(again) == stored) is (amount == "2")
