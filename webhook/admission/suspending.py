"""Reviews the suspension (`spec.suspend`) of workloads in queues: set in the first manifest, or by a user later.

A manifest for Kueue has its Job, JobSet or PyTorchJob suspended, and Kueue resumes it. Under Phalanx the scheduling
gates hold the pods back, so the webhook lifts this suspension once, at CREATE. A suspension that a user sets later
stays.

If a user applies the same manifest again, it still has `suspend: true`. The webhook must not read this as a suspension
by the user. It recognises an apply by the field manager of the request and by the fields that this manager owns
(metadata.managedFields). The annotation `phalanx.dev/created-suspended` records whether the first manifest had the
workload suspended. Without it, the webhook reads what kubectl last applied. The table of kinds
(`gangs.workloads.kind_table`) names the suspension field of each kind.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from gangs.dialects.templates import queued
from gangs.manifests import MalformedError, group_of, ref_of
from gangs.model import Advice, Manifest, ObjectRef
from gangs.sources import Sources
from gangs.workloads.kind_table import row_of
from gangs.workloads.pod_templates import at_path
from gangs.workloads.suspension import suspended_at
from kube.keys import CREATED_SUSPENDED
from webhook.admission.patch_builder import PatchBuilder
from webhook.admission.reviews import AdmissionRequest, Admitted, Decision, Refused
from webhook.admission.warnings import lines

KUBECTL_APPLY = "kubectl-client-side-apply"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
HELM_RELEASE = "meta.helm.sh/release-name"


def created(manifest: Manifest, sources: Sources, patch: PatchBuilder) -> None:
    """Lift the suspension of a new workload in a queue, and record in an annotation whether it was suspended.

    The API server may call the webhook again for the same workload, after other webhooks. The first record stays.

    :param patch: receives the changes.

    :raises MalformedError: the manifest has a wrong shape.
    """
    if not queued(manifest, sources):
        return
    field = suspended_at(manifest)
    if _suspended(manifest, field):
        patch.set(("metadata", "annotations", CREATED_SUSPENDED), "true")
        patch.set(field.split("."), value=False)
    elif CREATED_SUSPENDED not in ((manifest.get("metadata") or {}).get("annotations") or {}):
        patch.set(("metadata", "annotations", CREATED_SUSPENDED), "false")


def updated(request: AdmissionRequest, manifest: Manifest, old: Manifest, sources: Sources) -> Decision:
    """Return the decision on an update that suspends a running workload in a queue; other updates are admitted.

    A suspension by the user is admitted with a warning. If the user only applies the first manifest again, which has
    the workload suspended, the suspension is lifted, so the workload keeps running.
    """
    field = suspended_at(manifest)
    try:
        if not _suspended(manifest, field) or _suspended(old, field) or not queued(manifest, sources):
            return Admitted()
        ref = ref_of(manifest)
    except MalformedError as error:
        return Refused(str(error.fault))
    manager = request.options.field_manager if request.options else ""
    if not applied_again(old, manager):
        warning = "is suspended by its user: its pods are deleted and their capacity is freed; to go on: "
        warning += _command(ref, field, suspend=False)
        return Admitted(warnings=lines([Advice(ref, field, warning)]))
    patch = PatchBuilder(manifest)
    patch.set(field.split("."), value=False)
    warning = f"was lifted when the {ref.kind} was made, and applying its manifest again changes nothing; "
    warning += f"to suspend it: {_command(ref, field, suspend=True)}"
    return Admitted(patch.build(), lines([Advice(ref, field, warning)]))


def applied_again(old: Manifest, manager: str) -> bool:
    """Whether an update suspends the workload only because a user applies its first manifest again, which has it
    suspended.

    :param old: the stored workload. Its annotations and the fields that the manager owns in it decide.
    :param manager: the field manager of the update.
    """
    annotations = (old.get("metadata") or {}).get("annotations") or {}
    first = annotations.get(CREATED_SUSPENDED)
    if LAST_APPLIED in annotations and _applies_as_client(old, manager):
        return _applied_suspended(annotations[LAST_APPLIED], suspended_at(old))
    if manager == KUBECTL_APPLY:  # created in another way, such as `kubectl create`
        return first != "false"
    owner = next((each for each in _managers(old) if each.get("manager") == manager and _owns(each, old)), None)
    if owner is None or first == "false":
        return False
    return owner.get("operation") == "Apply" or HELM_RELEASE in annotations


def _command(ref: ObjectRef, field: str, *, suspend: bool) -> str:
    change: Any = suspend
    for step in reversed(field.split(".")):
        change = {step: change}
    patch = json.dumps(change, separators=(",", ":"))
    # Custom resources do not support strategic merge patches, kubectl's default.
    how = " --type=merge" if "." in group_of(ref.api_version) else ""
    return f"kubectl -n {ref.namespace} patch {ref.kind.lower()} {ref.name}{how} -p '{patch}'"


def _applies_as_client(old: Manifest, manager: str) -> bool:
    """Whether the manager applies manifests on the client side: kubectl, or a tool with the same annotation."""
    wrote = (each for each in _managers(old) if each.get("manager") == manager and each.get("operation") == "Update")
    return manager == KUBECTL_APPLY or any(_owns(each, old) for each in wrote)


def _suspended(manifest: Manifest, field: str) -> bool:
    return bool(field) and at_path(manifest, field) is True


def _applied_suspended(applied: str, field: str) -> bool:
    """Whether the manifest that kubectl last applied has the workload suspended. False if it cannot be read.

    :param applied: that manifest as JSON, from kubectl's annotation.
    :param field: the path of the suspension field.
    """
    try:
        return _suspended(json.loads(applied), field)
    except (ValueError, AttributeError, TypeError, RecursionError):
        return False


def _managers(old: Manifest) -> Iterator[Mapping[str, Any]]:
    """Yield the managedFields entries of an object, without those of subresources such as status."""
    for each in (old.get("metadata") or {}).get("managedFields") or ():
        if not each.get("subresource"):
            yield each


def _owns(entry: Mapping[str, Any], workload: Manifest) -> bool:
    """Whether a managedFields entry owns the pod templates and the suspension field of the workload.

    Then its manager has applied the whole manifest.
    """
    fields, row = entry.get("fieldsV1") or {}, row_of(workload)
    spec = fields.get("f:spec")
    if row is None or not isinstance(spec, Mapping) or at_path(fields, _owned(row.suspended_at)) is None:
        return False
    pods = {_owned(path).split(".")[1] for path in row.templates}
    # If another object describes the pods, any further field of the spec is enough.
    return not pods.isdisjoint(spec) if pods else len(spec) > 1


def _owned(path: str) -> str:
    """Return a field path in the notation of metadata.managedFields: `spec.suspend` becomes `f:spec.f:suspend`."""
    return ".".join(f"f:{step}" for step in path.split("."))
