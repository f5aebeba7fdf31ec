"""Workloads of every kind that can be suspended, in a queue. The first suspension is lifted; a user's later one stays.

A Job's rules are tried call by call in `tests/faults/test_suspended.py`; here every other kind has them, too.
"""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import jsonpatch
import pytest
from pictures import StillPicture
from workload_operators import ROWS, Object, owned, template

from gangs.dialects.reading import read_all
from gangs.dialects.templates import as_admitted
from gangs.kueue.keys import QUEUE_NAME
from gangs.manifests import key_of, pod_of
from gangs.sources import Sources
from gangs.workloads.kind_table import WORKLOADS
from kube.keys import CREATED_SUSPENDED, GANG, PREFERRED
from webhook.admission.dispatch import mutate, validate
from webhook.admission.reviews import AdmissionRequest, Admitted, GroupVersionResource, Options, Refused

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
CSA, SSA, PATCH, HELM = "kubectl-client-side-apply", "kubectl", "kubectl-patch", "helm"
LIFTED, SUSPENDED = "was lifted when the {} was made", "is suspended by its user"


def ray_job() -> Object:
    """Return a RayJob, whose RayCluster gets its labels."""
    spec = {"shutdownAfterJobFinishes": True, "rayClusterSpec": ROWS["RayCluster"].spec()}
    metadata = {"name": "w", "namespace": "default", "labels": {QUEUE_NAME: "q"}}
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata, "spec": spec}


def train_job() -> Object:
    """Return a TrainJob, whose JobSet gets the labels of its spec."""
    spec = {"runtimeRef": {"name": "torch"}, "labels": {QUEUE_NAME: "q"}}
    metadata = {"name": "w", "namespace": "default"}
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": metadata, "spec": spec}


def app_wrapper() -> Object:
    """Return an AppWrapper that names its own queue and contains a Job."""
    job: Object = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": template()}}
    job["metadata"] = {"name": "inner", "labels": {QUEUE_NAME: "q"}}
    metadata = {"name": "w", "namespace": "default", "labels": {QUEUE_NAME: "q"}}
    spec = {"components": [{"template": job}]}
    return {"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "metadata": metadata, "spec": spec}


def of_row(kind: str) -> Callable[[], Object]:
    """Return a workload of any other kind, which names its own queue."""

    def made() -> Object:
        manifest = ROWS[kind].manifest()
        manifest["metadata"]["labels"] = {QUEUE_NAME: "q"}
        return deepcopy(manifest)

    return made


SPECIAL = {"RayJob": ray_job, "TrainJob": train_job, "AppWrapper": app_wrapper}
KINDS: dict[str, tuple[str, str]] = {
    "JobSet": ("jobset.x-k8s.io", "spec.suspend"),
    "PyTorchJob": ("kubeflow.org", "spec.runPolicy.suspend"),
    "TFJob": ("kubeflow.org", "spec.runPolicy.suspend"),
    "XGBoostJob": ("kubeflow.org", "spec.runPolicy.suspend"),
    "PaddleJob": ("kubeflow.org", "spec.runPolicy.suspend"),
    "JAXJob": ("kubeflow.org", "spec.runPolicy.suspend"),
    "MPIJob": ("kubeflow.org", "spec.runPolicy.suspend"),
    "TrainJob": ("trainer.kubeflow.org", "spec.suspend"),
    "RayCluster": ("ray.io", "spec.suspend"),
    "RayJob": ("ray.io", "spec.suspend"),
    "AppWrapper": ("workload.codeflare.dev", "spec.suspend"),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def nested(kind: str, value: object) -> Object:
    """The field of the kind alone, with this value."""
    found: Any = value
    for step in reversed(KINDS[kind][1].split(".")):
        found = {step: found}
    return dict(found)


def manifest_of(kind: str, *, suspend: bool | None = True) -> Object:
    """Return a workload in a queue as its user writes it. `suspend` None: the field is absent."""
    found = SPECIAL.get(kind, of_row(kind))()
    return found if suspend is None else set_in(found, kind, suspend=suspend)


def set_in(manifest: Object, kind: str, *, suspend: bool) -> Object:
    """The workload, suspended or not."""
    found = deepcopy(manifest)
    *way, last = KINDS[kind][1].split(".")
    part = found
    for step in way:
        part = part.setdefault(step, {})
    part[last] = suspend
    return found


def suspended(manifest: Object, kind: str) -> bool | None:
    """Return the value of the kind's suspend field; None if the manifest has none."""
    part: Any = manifest
    for step in KINDS[kind][1].split("."):
        part = part.get(step, {})
    return part if isinstance(part, bool) else None


def asked(kind: str, new: Object, old: Object | None = None, manager: str = "", *around: Object) -> Admitted:
    """The webhook's answer."""
    group = KINDS[kind][0]
    request = AdmissionRequest(
        uid="1",
        operation="UPDATE" if old else "CREATE",
        resource=GroupVersionResource(group=group, version="v1", resource=WORKLOADS[group, kind].plural),
        namespace="default",
        options=Options(field_manager=manager),
        object=new,
        old_object=old,
    )
    decision = mutate(request, StillPicture(around), lambda _, __: ())
    assert isinstance(decision, Admitted), decision
    return decision


def stored(kind: str, new: Object, old: Object | None = None, manager: str = "", *around: Object) -> Any:
    """Return the workload as it is stored after its admission."""
    return jsonpatch.JsonPatch(asked(kind, new, old, manager, *around).patch).apply(deepcopy(new))


def owns_all(manifest: Object) -> Object:
    """Return the managed fields that the API server notes for a manager that has written the whole spec."""

    def noted(part: Any) -> Object:
        return {f"f:{key}": noted(each) for key, each in part.items()} if isinstance(part, dict) else {}

    return {"f:spec": noted(manifest["spec"])}


def running(kind: str, *managers: tuple[str, str, Object], applied: Object | None = None) -> Any:
    """Return the workload after it was resumed. `managers`: names, operations and the fields that they own."""
    found = stored(kind, manifest_of(kind))
    owners = [{"manager": name, "operation": how, "fieldsV1": fields} for name, how, fields in managers]
    found["metadata"] |= {"uid": "u", "managedFields": owners}
    found["metadata"]["annotations"] |= {} if applied is None else {LAST_APPLIED: json.dumps(applied)}
    return found


def test_every_kind_that_can_be_suspended_for_a_queue_is_here() -> None:
    of_table = {kind: (group, row.suspended_at) for (group, kind), row in WORKLOADS.items() if row.suspended_at}
    assert of_table.pop("Job") == ("batch", "spec.suspend")
    assert of_table == KINDS


@every_kind
@pytest.mark.parametrize("suspend", [True, False, None], ids=["true", "false", "absent"])
def test_what_its_manifest_had_for_its_queue_is_lifted_once_and_noted(kind: str, suspend: bool | None) -> None:  # noqa: FBT001
    manifest = manifest_of(kind, suspend=suspend)
    found = stored(kind, manifest)
    assert not suspended(found, kind)
    assert found["metadata"]["annotations"][CREATED_SUSPENDED] == ("true" if suspend else "false")
    again = stored(kind, found)  # the API server may ask twice
    assert (again["spec"], again["metadata"]["annotations"]) == (found["spec"], found["metadata"]["annotations"])
    planned: Any = as_admitted(manifest, Sources())
    assert not suspended(planned, kind)


@pytest.mark.parametrize("kind", SPECIAL)
def test_of_a_queue_and_our_keys_one_is_kept(kind: str) -> None:
    """The objects that its operator creates would be refused, and no user would see the error."""
    manifest = manifest_of(kind)
    resource = GroupVersionResource(group=KINDS[kind][0], version="v1", resource=f"{kind.lower()}s")
    for annotations, refused in (({PREFERRED: "rack"}, True), ({PREFERRED: "rack", GANG: "false"}, False), ({}, False)):
        new = {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}
        request = AdmissionRequest(uid="1", operation="CREATE", resource=resource, namespace="default", object=new)
        decision = validate(request, StillPicture(), lambda _: ())
        assert isinstance(decision, Refused) is refused, decision
        assert not isinstance(decision, Refused) or "keep one of the two ways of asking" in decision.message


@every_kind
def test_one_in_no_queue_is_let_be(kind: str) -> None:
    manifest = manifest_of(kind)
    manifest["metadata"].pop("labels", None)
    manifest["spec"].pop("labels", None)
    assert asked(kind, manifest) == Admitted()
    assert as_admitted(manifest, Sources()) == manifest


def calls(kind: str) -> Iterator[tuple[str, str, Object, str]]:
    """Yield the ways to suspend a running workload: a name, the field manager, the workload before, and the warning."""
    whole = owns_all(manifest_of(kind))
    only = {"f:spec": owns_all({"spec": nested(kind, value=True)["spec"]})["f:spec"]}
    said, not_said = manifest_of(kind), manifest_of(kind, suspend=False)
    made = (CSA, "Update", whole)
    yield "kubectl patch", PATCH, running(kind, made, applied=said), SUSPENDED
    yield "kubectl patch, the second time", PATCH, running(kind, (PATCH, "Update", only), made), SUSPENDED
    yield "kubectl apply of the same", CSA, running(kind, made, applied=said), LIFTED
    yield "kubectl apply of another manifest", CSA, running(kind, made, applied=not_said), SUSPENDED
    yield "server-side apply of the same", SSA, running(kind, (SSA, "Apply", whole)), LIFTED
    yield "server-side apply of nothing but that", "me", running(kind, ("me", "Apply", only), made), SUSPENDED
    helm = running(kind, (HELM, "Update", whole))
    helm["metadata"]["annotations"]["meta.helm.sh/release-name"] = "train"
    yield "helm upgrade", HELM, helm, LIFTED
    yield "a program that made it and suspends it", "python", running(kind, ("python", "Update", whole)), SUSPENDED


@every_kind
def test_who_suspends_one_that_runs(kind: str) -> None:
    for name, manager, old, told in calls(kind):
        new = set_in(old, kind, suspend=True)
        decision = asked(kind, new, old, manager)
        (warning,) = (" ".join(decision.warnings),)
        assert told.format(kind) in warning, name
        assert f"{kind} default/w: {KINDS[kind][1]}: " in warning
        wanted = json.dumps(nested(kind, value=told == LIFTED), separators=(",", ":"))
        assert f"kubectl -n default patch {kind.lower()} w --type=merge -p '{wanted}'" in warning
        assert suspended(jsonpatch.JsonPatch(decision.patch).apply(new), kind) is (told == SUSPENDED), name


@every_kind
def test_a_change_that_suspends_nothing_is_told_nothing(kind: str) -> None:
    for before in (True, False):
        old = set_in(running(kind), kind, suspend=before)
        assert asked(kind, deepcopy(old), old, PATCH) == Admitted()
        assert asked(kind, set_in(old, kind, suspend=False), old, PATCH) == Admitted()


@every_kind
def test_where_kueue_runs_it_is_left_to_that(kind: str) -> None:
    kueue = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "kueue-mutating-webhook-configuration"},
        "webhooks": [{"name": "mclusterqueue.kb.io", "clientConfig": {"service": {"namespace": "kueue-system"}}}],
    }
    assert asked(kind, manifest_of(kind), None, "", kueue) == Admitted()
    old = running(kind)
    assert asked(kind, set_in(old, kind, suspend=True), old, CSA, kueue) == Admitted()


@pytest.mark.parametrize(("kind", "maker"), [("JobSet", "TrainJob"), ("RayCluster", "RayJob")])
def test_one_that_another_workload_made_is_suspended_by_that(kind: str, maker: str) -> None:
    """The operator of the parent applies the parent's value, as `kubectl apply` does."""
    manifest = manifest_of(kind)
    above = {**manifest_of(maker), "metadata": {"name": "above", "namespace": "default", "uid": "u"}}
    manifest["metadata"]["ownerReferences"] = [owned(above)]
    found = stored(kind, manifest)
    assert suspended(found, kind)
    assert CREATED_SUSPENDED not in found["metadata"]["annotations"]
    ran = set_in(found, kind, suspend=False)
    ran["metadata"]["managedFields"] = [{"manager": "operator", "operation": "Apply", "fieldsV1": owns_all(manifest)}]
    assert asked(kind, set_in(ran, kind, suspend=True), ran, "operator") == Admitted()
    (gang,) = read_all(Sources(objects={key_of(found): found})).gangs
    assert gang.waiting_for == (f"{kind} default/w to be resumed (by {maker} above, which made it)",)


MAKERS_OF_JOBS = {"a JobSet": ("JobSet", True), "a CronJob": ("CronJob", False)}


@pytest.mark.parametrize(("maker", "stays"), MAKERS_OF_JOBS.values(), ids=MAKERS_OF_JOBS)
def test_the_jobs_of_a_workload_that_is_suspended_stay_so_and_those_of_a_cron_job_start(
    maker: str,
    stays: bool,  # noqa: FBT001
) -> None:
    api_version = {"JobSet": "jobset.x-k8s.io/v1alpha2", "CronJob": "batch/v1"}[maker]
    named = {"namespace": "default", "labels": {QUEUE_NAME: "q"}}
    above = {"apiVersion": api_version, "kind": maker, "metadata": {**named, "name": "above", "uid": "u"}}
    job: Object = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**named, "name": "j", "ownerReferences": [owned(above)]},
        "spec": {"parallelism": 2, "completions": 2, "suspend": True, "template": template()},
    }
    request = AdmissionRequest(
        uid="1",
        operation="CREATE",
        resource=GroupVersionResource(group="batch", version="v1", resource="jobs"),
        namespace="default",
        object=job,
    )
    decision = mutate(request, StillPicture(), lambda _, __: ())
    assert isinstance(decision, Admitted)
    found: Any = jsonpatch.JsonPatch(decision.patch).apply(deepcopy(job))
    assert found["spec"]["suspend"] is stays
    assert found["spec"]["template"]["metadata"]["labels"][QUEUE_NAME] == "q"


@every_kind
def test_one_that_its_user_has_suspended_says_so(kind: str) -> None:
    if kind in SPECIAL:
        return  # it has no gang of its own: that of the object made of it is gone, or waits for it
    manifest = set_in(running(kind), kind, suspend=True)
    (gang,) = read_all(Sources(objects={key_of(manifest): manifest})).gangs
    assert gang.waiting_for == (f"{kind} default/w to be resumed (it is suspended by {KINDS[kind][1]})",)
    assert as_admitted(manifest, Sources()) == manifest


def test_a_gang_of_our_own_that_is_suspended_stays_so() -> None:
    manifest = ROWS["JobSet"].manifest(gang="true")
    manifest["spec"]["suspend"] = True
    found = stored("JobSet", manifest)
    assert found["spec"]["suspend"] is True
    assert CREATED_SUSPENDED not in found["metadata"]["annotations"]
    assert GANG in found["metadata"]["annotations"]
    assert [pod_of(each) for each in ROWS["JobSet"].pods(found)]


def test_a_train_job_that_names_its_queue_itself_is_lifted_and_its_job_set_named() -> None:
    manifest = set_in(train_job(), "TrainJob", suspend=True)
    manifest["metadata"]["labels"] = manifest["spec"].pop("labels")
    found = stored("TrainJob", manifest)
    assert (suspended(found, "TrainJob"), found["spec"]["labels"]) == (False, {QUEUE_NAME: "q"})
