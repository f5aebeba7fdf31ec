"""Chooses the answer to an AdmissionReview by path, kind and operation.

The functions have no side effects: they read the webhook's view of the cluster and write nothing. Dry runs get the same
answers.
"""

from collections.abc import Mapping
from dataclasses import replace

import jsonpatch
from msgspec import structs

from gangs.manifests import key_of
from gangs.model import Manifest
from gangs.sources import Sources
from gangs.workload_kinds import user_defined_rows
from gangs.workloads.kind_table import WORKLOADS
from gangs.workloads.user_defined_kinds import with_row
from kube import keys
from kube.catalog import ObjectKey
from kube.kept_objects import kept_object
from webhook.admission import absent_schedulers, arriving_pods, object_reviews, suspending
from webhook.admission.arriving_pods import Foretell
from webhook.admission.object_reviews import Forecast
from webhook.admission.reviews import AdmissionRequest, Admitted, Decision, Refused
from webhook.errors import BadReview, Unavailable
from webhook.picture import Picture

CREATE = "CREATE"
UPDATE = "UPDATE"
_ANNOTATED = {(group, row.plural) for (group, _), row in WORKLOADS.items() if row.by_annotation}
"""The kinds whose annotations make a workload a gang, by API group and plural. Jobs are handled before this is read."""
_PROPAGATING = {
    (group, row.plural) for (group, _), row in WORKLOADS.items() if row.child is not None and row.child.annotations_at
}
"""The kinds whose annotations the webhook propagates to their child workload, by API group and plural."""
_SUSPENDED = {(group, row.plural) for (group, _), row in WORKLOADS.items() if row.suspended_at}
"""The kinds that can be suspended for a queue, by API group and plural."""


def mutate(request: AdmissionRequest, picture: Picture, foretell: Foretell, *, automatic: bool = False) -> Decision:
    """Return the decision of `/mutate` on a pod, a Job or another workload. Other objects are admitted unchanged.

    :param foretell: returns the forecast of an arriving pod's gang, if it is known at once.
    :param automatic: whether the API server has matched the label of an automatic namespace (`/mutate/automatic`).
        The webhook cannot always see that itself: a namespace that is milliseconds old is not in its caches yet.
    :raises BadReview: the request has no object.
    :raises Unavailable: the answer cannot be given now.
    """
    match request.resource.group, request.resource.resource, request.operation:
        case "", "pods", "CREATE":
            return arriving_pods.created(_object(request), picture, foretell)
        case "", "pods", "UPDATE":
            return arriving_pods.updated(_object(request), _old(request), picture)
        case "batch", "jobs", "CREATE":
            sources = _without_pods(picture)
            known = _automatic(sources, request.namespace) if automatic else sources
            return object_reviews.workload_created(_object(request), known)
        case "batch", "jobs", "UPDATE":
            return suspending.updated(request, _object(request), _old(request), _without_pods(picture))
    kind = request.resource.group, request.resource.resource
    if kind not in _PROPAGATING | _ANNOTATED | _SUSPENDED:
        return Admitted()
    sources = _without_pods(picture)
    decision = _propagated(request, sources) if kind in _PROPAGATING else _workload(request, sources)
    return _resumed(decision, request, sources) if kind in _SUSPENDED and request.operation == UPDATE else decision


def _propagated(request: AdmissionRequest, sources: Sources) -> Decision:
    """Return the decision on a workload whose child workload is the gang, such as a TrainJob with its JobSet. The
    annotations that ask for the gang are written where the operator copies them to the child.
    """
    old = _old(request) if request.operation == UPDATE else None
    return object_reviews.propagated(_object(request), old, sources)


def _resumed(decision: Decision, request: AdmissionRequest, sources: Sources) -> Decision:
    """Add to the decision on an updated workload the patch and the warnings about its suspension, and return it."""
    if isinstance(decision, Refused):
        return decision
    answer = suspending.updated(request, _object(request), _old(request), sources)
    if isinstance(answer, Refused):
        return answer
    return Admitted((*decision.patch, *answer.patch), (*decision.warnings, *answer.warnings))


def described(request: AdmissionRequest, picture: Picture, forecast: Forecast) -> Decision:
    """Return the decision of `/mutate/described` on a workload of a user-defined kind that asks to be a gang.

    This call also validates, so that the API server calls the webhook once for each object and not twice. An object
    of a kind that no WorkloadKind describes is admitted unchanged.

    :raises BadReview: the request has no object.
    :raises Unavailable: the answer cannot be given now.
    """
    sources = _without_pods(picture)
    coming = _coming(request, sources, picture)
    changed = _workload(request, sources.changed(coming))
    if isinstance(changed, Refused):
        return changed
    manifest = jsonpatch.apply_patch(dict(_object(request)), list(changed.patch))
    answer = _validated(structs.replace(request, object=manifest), picture, forecast, coming)
    return replace(answer, patch=changed.patch) if isinstance(answer, Admitted) else answer


def _coming(request: AdmissionRequest, sources: Sources, picture: Picture) -> Mapping[ObjectKey, Manifest]:
    """Return the WorkloadKind of a new object's kind, by its key, if the WorkloadKind is too new for the caches.

    Empty if the caches have it, if there is none, and for an update.
    """
    at = key_of(_object(request))[:2]
    if request.operation != CREATE or at in user_defined_rows(sources):
        return {}
    found = picture.describing(*at)
    return {} if found is None else {key_of(found): found}


def _workload(request: AdmissionRequest, sources: Sources) -> Decision:
    """Return the decision on a workload. A workload of an unknown kind is admitted unchanged."""
    rows = user_defined_rows(sources)
    manifest = with_row(_object(request), rows)
    if request.operation == CREATE:
        return object_reviews.workload_created(manifest, sources)
    return object_reviews.workload_changed(manifest, with_row(_old(request), rows), sources)


def hand_over(request: AdmissionRequest, picture: Picture) -> Decision:
    """Return the decision of `/mutate/absent-schedulers` on a pod of no gang. If the pod names a scheduler that does
    not run in the cluster, it gets the stock scheduler.

    :raises BadReview: the request has no object.
    :raises Unavailable: the answer cannot be given now.
    """
    match request.resource.resource, request.operation:
        case "pods", "CREATE":
            return absent_schedulers.created(_object(request), picture)
        case "pods", "UPDATE":
            return absent_schedulers.updated(_object(request), _old(request))
    return Admitted()


def validate(request: AdmissionRequest, picture: Picture, forecast: Forecast) -> Decision:
    """Return the decision of `/validate` on an object that describes a gang or a topology, or on a changed pod.

    :raises BadReview: the request has no object.
    :raises Unavailable: the answer cannot be given now.
    """
    return _validated(request, picture, forecast, {})


def _validated(
    request: AdmissionRequest, picture: Picture, forecast: Forecast, coming: Mapping[ObjectKey, Manifest]
) -> Decision:
    """Return the decision of a validation. Deletions and writes of subresources are admitted.

    :param coming: by key: objects that exist but are not in the caches yet.
    """
    if request.sub_resource or request.operation not in (CREATE, UPDATE):
        return Admitted()
    if (request.resource.group, request.resource.resource) == ("", "pods"):
        return (
            arriving_pods.kept(_object(request), _old(request), picture) if request.operation == UPDATE else Admitted()
        )
    old = _old(request) if request.operation == UPDATE else None
    _await(picture)
    rows = user_defined_rows(picture.sources_of().changed(coming))
    manifest, old = with_row(_object(request), rows), None if old is None else with_row(old, rows)
    about = (manifest,) if old is None else (manifest, old)
    sources = picture.sources_about(*about).changed(coming)
    return object_reviews.checked(manifest, old, sources, forecast, picture)


def _automatic(sources: Sources, namespace: str) -> Sources:
    """Return the sources, in which the namespace has the label `phalanx.dev/automatic` even if the caches do not show
    it yet.
    """
    labels = {**sources.namespaces.get(namespace, {}), keys.AUTOMATIC: "true"}
    return replace(sources, namespaces={**sources.namespaces, namespace: labels})


def _object(request: AdmissionRequest) -> Manifest:
    if request.object is None:
        raise BadReview(f"{request.operation} of {request.resource.resource} without an object")
    return kept_object(request.object)


def _old(request: AdmissionRequest) -> Manifest:
    if request.old_object is None:
        raise BadReview(f"{request.operation} of {request.resource.resource} without its old object")
    return kept_object(request.old_object)


def _without_pods(picture: Picture) -> Sources:
    """Return all objects of the caches except pods, because a workload is patched without them, and there may be very
    many.

    :raises Unavailable: the caches are not complete yet.
    """
    _await(picture)
    return picture.sources_of()


def _await(picture: Picture) -> None:
    if not picture.synced():
        raise Unavailable("still reading the cluster; try again in a few seconds")
