"""A Job in a queue that its user suspends stays suspended; the same manifest applied again does not suspend it.

After `kubectl patch job j4 -p '{"spec":{"suspend":true}}'` the Job must not go on without a message.
"""

import json
from pathlib import Path
from typing import Any

import jsonpatch
import pytest
import yaml
from suspended_words import LIFTED, SUSPENDED

from gangs.dialects.reading import read_all
from gangs.dialects.templates import as_admitted
from gangs.manifests import key_of
from gangs.sources import Sources
from kube.keys import CREATED_SUSPENDED
from webhook.admission.object_reviews import workload_created
from webhook.admission.reviews import AdmissionRequest, Admitted, GroupVersionResource, Options
from webhook.admission.suspending import updated

FILES = Path(__file__).parent / "suspended"
Manifest = dict[str, Any]

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
WHOLE: Manifest = {"f:spec": {"f:template": {}, "f:suspend": {}}}
ONLY_SUSPEND: Manifest = {"f:spec": {"f:suspend": {}}}


def documents() -> list[Manifest]:
    """Return the manifests of the queue, its flavor and the Job."""
    files = ("topology-and-flavor.yaml", "pool.yaml", "job.yaml")
    return [each for file in files for each in yaml.safe_load_all((FILES / file).read_text())]


def cluster(*objects: Manifest) -> Sources:
    """Return the objects that the webhook reads from its caches."""
    return Sources(objects={key_of(each): each for each in objects})


def made(*, suspend: bool | None = True) -> Manifest:
    """Return the Job as the webhook admits it."""
    *_, job = documents()
    job["spec"].pop("suspend")
    if suspend is not None:
        job["spec"]["suspend"] = suspend
    decision = workload_created(job, cluster(*documents()))
    assert isinstance(decision, Admitted)
    stored: Manifest = jsonpatch.JsonPatch(decision.patch).apply(job)
    return stored


def managed(manager: str, operation: str, fields: Manifest) -> Manifest:
    """Return an entry of `metadata.managedFields`: the fields of the Job that a manager owns."""
    return {"manager": manager, "operation": operation, "fieldsV1": fields}


def stored(*managers: Manifest, noted: str | None = "true", annotations: Manifest | None = None) -> Manifest:
    """Return the running Job as stored.

    :param noted: the value of the annotation that the webhook wrote at its creation; None: no annotation.
    """
    job = made()
    job["metadata"] |= {"uid": "uid-j4", "managedFields": list(managers)}
    job["metadata"]["annotations"] |= annotations or {}
    job["metadata"]["annotations"][CREATED_SUSPENDED] = noted
    if noted is None:
        del job["metadata"]["annotations"][CREATED_SUSPENDED]
    return job


ASKED, ASKED_NOT = (
    {LAST_APPLIED: json.dumps({"spec": {"suspend": suspend, "template": {}}})} for suspend in (True, False)
)
"""The last-applied annotations of kubectl, with `suspend` true and false."""


@pytest.mark.parametrize(
    ("suspend", "noted"), [(True, "true"), (False, "false"), (None, "false")], ids=["true", "false", "absent"]
)
def test_what_a_manifest_had_for_its_queue_is_lifted_once_and_noted(suspend: bool | None, noted: str) -> None:  # noqa: FBT001
    job = made(suspend=suspend)
    assert not job["spec"].get("suspend")
    assert job["metadata"]["annotations"][CREATED_SUSPENDED] == noted


CSA, SSA, PATCH, HELM, ARGO = "kubectl-client-side-apply", "kubectl", "kubectl-patch", "helm", "argocd-controller"
CALLS = {
    "kubectl patch": (PATCH, stored(managed(CSA, "Update", WHOLE), annotations=ASKED), SUSPENDED),
    "kubectl edit": ("kubectl-edit", stored(managed(CSA, "Update", WHOLE), annotations=ASKED), SUSPENDED),
    "kubectl patch, the second time": (
        PATCH,
        stored(managed(PATCH, "Update", ONLY_SUSPEND), managed(CSA, "Update", WHOLE), annotations=ASKED),
        SUSPENDED,
    ),
    "kubectl apply of the same": (CSA, stored(managed(CSA, "Update", WHOLE), annotations=ASKED), LIFTED),
    "kubectl apply of another manifest": (
        CSA,
        stored(managed(CSA, "Update", WHOLE), noted="false", annotations=ASKED_NOT),
        SUSPENDED,
    ),
    "kubectl apply of a manifest that once was not suspended": (
        CSA,
        stored(managed(CSA, "Update", WHOLE), annotations=ASKED_NOT),
        SUSPENDED,
    ),
    "kubectl apply after kubectl create": (CSA, stored(managed("kubectl-create", "Update", WHOLE)), LIFTED),
    "kubectl apply of suspend after kubectl create without": (
        CSA,
        stored(managed("kubectl-create", "Update", WHOLE), noted="false"),
        SUSPENDED,
    ),
    "kubectl apply of a Job that was there before the upgrade": (
        CSA,
        stored(managed(CSA, "Update", WHOLE), noted=None, annotations=ASKED),
        LIFTED,
    ),
    "kubectl patch of a Job that was there before the upgrade": (
        PATCH,
        stored(managed(CSA, "Update", WHOLE), noted=None, annotations=ASKED),
        SUSPENDED,
    ),
    "server-side apply of the same": (SSA, stored(managed(SSA, "Apply", WHOLE)), LIFTED),
    "server-side apply of a Job that was there before the upgrade": (
        SSA,
        stored(managed(SSA, "Apply", WHOLE), noted=None),
        LIFTED,
    ),
    "server-side apply of another manifest": (SSA, stored(managed(SSA, "Apply", WHOLE), noted="false"), SUSPENDED),
    "server-side apply of nothing but suspend": (
        "me",
        stored(managed("me", "Apply", ONLY_SUSPEND), managed(SSA, "Apply", WHOLE)),
        SUSPENDED,
    ),
    "server-side apply by force after the user has suspended and resumed it": (
        SSA,
        stored(managed(SSA, "Apply", {"f:spec": {"f:template": {}}}), managed(PATCH, "Update", ONLY_SUSPEND)),
        SUSPENDED,
    ),
    "helm upgrade": (
        HELM,
        stored(managed(HELM, "Update", WHOLE), annotations={"meta.helm.sh/release-name": "train"}),
        LIFTED,
    ),
    "a tool that applies as kubectl does": (
        ARGO,
        stored(managed(ARGO, "Update", WHOLE), annotations=ASKED),
        LIFTED,
    ),
    "a program that made it and suspends it": ("python", stored(managed("python", "Update", WHOLE)), SUSPENDED),
    "the controller that writes its status": (
        "kube-controller-manager",
        stored({**managed("kube-controller-manager", "Update", WHOLE), "subresource": "status"}),
        SUSPENDED,
    ),
    "nobody who says who he is": ("", stored(managed(CSA, "Update", WHOLE), annotations=ASKED), SUSPENDED),
    "a note that is none": (CSA, stored(annotations={LAST_APPLIED: "[]"}), SUSPENDED),
}


@pytest.mark.parametrize(("manager", "old", "told"), CALLS.values(), ids=CALLS)
def test_who_suspends_a_job_that_runs(manager: str, old: Manifest, told: str) -> None:
    new = {**old, "spec": {**old["spec"], "suspend": True}}
    request = AdmissionRequest(
        uid="1", operation="UPDATE", resource=GroupVersionResource(), options=Options(field_manager=manager)
    )
    decision = updated(request, new, old, cluster(*documents()))
    assert isinstance(decision, Admitted)
    assert " ".join(decision.warnings) == told
    after = jsonpatch.JsonPatch(decision.patch).apply(new)
    assert after["spec"]["suspend"] is (told == SUSPENDED)


@pytest.mark.parametrize("before", [True, False])
def test_a_change_that_suspends_nothing_is_none_of_our_business(before: bool) -> None:  # noqa: FBT001
    old = stored()
    old["spec"]["suspend"] = before
    new = {**old, "spec": {**old["spec"], "suspend": before and old["spec"]["suspend"]}}
    request = AdmissionRequest(uid="1", operation="UPDATE", resource=GroupVersionResource(), options=None)
    assert updated(request, new, old, cluster(*documents())) == Admitted()


def test_a_job_that_its_user_has_suspended_says_so() -> None:
    job = stored()
    job["spec"]["suspend"] = True
    (gang,) = read_all(cluster(*documents()[:-1], job)).gangs
    assert gang.waiting_for == ("Job default/j4 to be resumed (it is suspended by spec.suspend)",)
    assert as_admitted(job, cluster(*documents()[:-1]))["spec"]["suspend"] is True


def test_a_manifest_that_notes_the_suspension_of_another_job_is_as_any_new_one() -> None:
    *_, job = documents()
    job["metadata"]["annotations"] = {CREATED_SUSPENDED: "false"}
    assert as_admitted(job, cluster(*documents()))["spec"]["suspend"] is False
