"""Jobs in queues that are suspended: for their queue when they are made, or by their user later on.

A manifest for Kueue has its Job suspended, for Kueue to resume it. Here the gates of its pods hold a Job back, so that
this suspension is lifted, once, when the Job is made. Whoever suspends it later means it. What is left to tell apart is
the same manifest applied again, which says `suspend: true` as it did at first: an apply is known by the manager that
the API server names with the call and by what that manager owns (metadata.managedFields), and the manifest's first word
by the annotation `phalanx.dev/created-suspended`, or by what kubectl last applied.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from gangs.dialects.templates import queued
from gangs.manifests import MalformedError, ref_of
from gangs.model import Advice, Manifest, ObjectRef
from gangs.sources import Sources
from kube.keys import CREATED_SUSPENDED
from webhook.admission.patch_builder import PatchBuilder
from webhook.admission.reviews import AdmissionRequest, Admitted, Decision, Refused
from webhook.admission.warnings import lines

KUBECTL_APPLY = "kubectl-client-side-apply"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
HELM_RELEASE = "meta.helm.sh/release-name"
_FIELD = "spec.suspend"


def created(manifest: Manifest, sources: Sources, patch: PatchBuilder) -> None:
    """Lift the suspension that a new workload has for its queue, and note whether it had one.

    Raises `MalformedError`.
    """
    if queued(manifest, sources):
        suspended = _suspended(manifest)
        patch.set(("metadata", "annotations", CREATED_SUSPENDED), json.dumps(suspended))
        if suspended:
            patch.set(("spec", "suspend"), value=False)


def updated(request: AdmissionRequest, manifest: Manifest, old: Manifest, sources: Sources) -> Decision:
    """Let a user suspend his Job; keep it going where only the manifest that it was made from is applied again."""
    try:
        if not queued(manifest, sources) or not _suspended(manifest) or _suspended(old):
            return Admitted()
        ref = ref_of(manifest)
    except MalformedError as error:
        return Refused(str(error.fault))
    manager = request.options.field_manager if request.options else ""
    if not applied_again(old, manager):
        warning = "is suspended by its user: its pods are deleted and their room is given back; to go on: "
        warning += _command(ref, suspend=False)
        return Admitted(warnings=lines([Advice(ref, _FIELD, warning)]))
    patch = PatchBuilder(manifest)
    patch.set(("spec", "suspend"), value=False)
    warning = "was lifted when the Job was made, and applying its manifest again changes nothing; to suspend it: "
    warning += _command(ref, suspend=True)
    return Admitted(patch.build(), lines([Advice(ref, _FIELD, warning)]))


def applied_again(old: Manifest, manager: str) -> bool:
    """Whether `manager`, who suspends the workload, does so by applying the manifest that suspended it from the start.

    :param old: the workload as it stands. One that was made before its first word was noted is judged by what its
        manifest's manager owns.
    """
    annotations = (old.get("metadata") or {}).get("annotations") or {}
    first = annotations.get(CREATED_SUSPENDED)
    if LAST_APPLIED in annotations and _applies_as_client(old, manager):
        return _said_by(annotations[LAST_APPLIED])
    if manager == KUBECTL_APPLY:  # made otherwise, by `kubectl create` perhaps
        return first != "false"
    owner = next((each for each in _managers(old) if each.get("manager") == manager and _owns(each)), None)
    if owner is None or first == "false":
        return False
    return owner.get("operation") == "Apply" or HELM_RELEASE in annotations


def _command(ref: ObjectRef, *, suspend: bool) -> str:
    patch = json.dumps({"spec": {"suspend": suspend}}, separators=(",", ":"))
    return f"kubectl -n {ref.namespace} patch job {ref.name} -p '{patch}'"


def _applies_as_client(old: Manifest, manager: str) -> bool:
    """Whether it is kubectl's own apply, or that of a tool which notes what it applied as kubectl does."""
    wrote = (each for each in _managers(old) if each.get("manager") == manager and each.get("operation") == "Update")
    return manager == KUBECTL_APPLY or any(map(_owns, wrote))


def _suspended(manifest: Manifest) -> bool:
    spec = manifest.get("spec")
    return isinstance(spec, Mapping) and bool(spec.get("suspend"))


def _said_by(applied: str) -> bool:
    """Whether what kubectl last applied has the workload suspended."""
    try:
        return _suspended(json.loads(applied))
    except (ValueError, AttributeError, TypeError, RecursionError):
        return False


def _managers(old: Manifest) -> Iterator[Mapping[str, Any]]:
    """Who has written to the object itself (a controller that writes its status is none of them)."""
    for each in (old.get("metadata") or {}).get("managedFields") or ():
        if not each.get("subresource"):
            yield each


def _owns(entry: Mapping[str, Any]) -> bool:
    """Whether a manager has written the whole manifest, its suspension included."""
    spec = (entry.get("fieldsV1") or {}).get("f:spec")
    return isinstance(spec, Mapping) and "f:template" in spec and "f:suspend" in spec
