"""Which object gets which answer. Pure: reads the picture, asks nobody, writes nothing, the same in dry runs."""

from collections.abc import Mapping
from dataclasses import replace

import jsonpatch
from msgspec import structs

from gangs.manifests import key_of
from gangs.model import Manifest
from gangs.sources import Sources
from gangs.workload_kinds import taught
from gangs.workloads.kind_table import WORKLOADS
from gangs.workloads.taught_kinds import with_row
from kube import keys
from kube.catalog import ObjectKey
from webhook.admission import absent_schedulers, arriving_pods, object_reviews, suspending
from webhook.admission.arriving_pods import Foretell
from webhook.admission.object_reviews import Forecast
from webhook.admission.reviews import AdmissionRequest, Admitted, Decision, Refused
from webhook.errors import BadReview, Unavailable
from webhook.picture import Picture

CREATE = "CREATE"
UPDATE = "UPDATE"
_ANNOTATED = {(group, shape.plural) for (group, _), shape in WORKLOADS.items() if shape.by_annotation}
"""Groups and plurals of the kinds whose annotations make gangs; Jobs are answered before these are asked."""
_HANDING_DOWN = {(group, shape.plural) for (group, _), shape in WORKLOADS.items() if shape.hands_at}
"""Those of kinds in which annotations are written down for the object made of them."""
_SUSPENDED = {(group, shape.plural) for (group, _), shape in WORKLOADS.items() if shape.suspended_at}
"""Those of kinds that can be suspended for a queue."""


def mutate(request: AdmissionRequest, picture: Picture, foretell: Foretell, *, automatic: bool = False) -> Decision:
    """The answer of `/mutate`: pods, Jobs and workloads that ask to be gangs. Anything else comes in as it is.

    Raises BadReview for a request without its object, Unavailable where the answer cannot be given now.

    :param automatic: whether the API server itself has matched the namespace's label (`/mutate/automatic`). A namespace
        that is a few milliseconds old is not in our own picture yet.
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
    if kind not in _HANDING_DOWN | _ANNOTATED | _SUSPENDED:
        return Admitted()
    sources = _without_pods(picture)
    decision = _handing_down(request, sources) if kind in _HANDING_DOWN else _workload(request, sources)
    return _resumed(decision, request, sources) if kind in _SUSPENDED and request.operation == UPDATE else decision


def _handing_down(request: AdmissionRequest, sources: Sources) -> Decision:
    """A workload of which another object is made that is the gang."""
    old = _old(request) if request.operation == UPDATE else None
    return object_reviews.handing_down(_object(request), old, sources)


def _resumed(decision: Decision, request: AdmissionRequest, sources: Sources) -> Decision:
    """The answer about a workload that is changed, with what it is told of being suspended, or resumed again."""
    if isinstance(decision, Refused):
        return decision
    answer = suspending.updated(request, _object(request), _old(request), sources)
    if isinstance(answer, Refused):
        return answer
    return Admitted((*decision.patch, *answer.patch), (*decision.warnings, *answer.warnings))


def described(request: AdmissionRequest, picture: Picture, forecast: Forecast) -> Decision:
    """The answer of `/mutate/described`: objects of any kind that ask to be gangs, changed and told of at once, so that
    the API server looks at every object once and not twice. One of a kind that nobody has described comes in as it is.
    Raises as `mutate` does.
    """
    sources = _without_pods(picture)
    coming = _coming(request, sources, picture)
    changed = _workload(request, sources.changed(coming))
    if isinstance(changed, Refused):
        return changed
    manifest = jsonpatch.apply_patch(_object(request), list(changed.patch))
    answer = _validated(structs.replace(request, object=manifest), picture, forecast, coming)
    return replace(answer, patch=changed.patch) if isinstance(answer, Admitted) else answer


def _coming(request: AdmissionRequest, sources: Sources, picture: Picture) -> Mapping[ObjectKey, Manifest]:
    """What describes the kind of a new object, where that has come so lately that the caches do not have it yet."""
    at = key_of(_object(request))[:2]
    if request.operation != CREATE or at in taught(sources):
        return {}
    found = picture.describing(*at)
    return {} if found is None else {key_of(found): found}


def _workload(request: AdmissionRequest, sources: Sources) -> Decision:
    """A workload, no Job, that asks to be a gang. Of a kind that nobody has described it is let be."""
    rows = taught(sources)
    manifest = with_row(_object(request), rows)
    if request.operation == CREATE:
        return object_reviews.workload_created(manifest, sources)
    return object_reviews.workload_changed(manifest, with_row(_old(request), rows), sources)


def hand_over(request: AdmissionRequest, picture: Picture) -> Decision:
    """The answer of `/mutate/absent-schedulers`: pods of no gang. Raises as `mutate` does."""
    match request.resource.resource, request.operation:
        case "pods", "CREATE":
            return absent_schedulers.created(_object(request), picture)
        case "pods", "UPDATE":
            return absent_schedulers.updated(_object(request), _old(request))
    return Admitted()


def validate(request: AdmissionRequest, picture: Picture, forecast: Forecast) -> Decision:
    """The answer of `/validate`: every object that describes gangs or topologies, and pods that change while gated.

    Raises as `mutate` does.
    """
    return _validated(request, picture, forecast, {})


def _validated(
    request: AdmissionRequest, picture: Picture, forecast: Forecast, coming: Mapping[ObjectKey, Manifest]
) -> Decision:
    """`coming`: what the caches do not have yet."""
    if request.sub_resource or request.operation not in (CREATE, UPDATE):
        return Admitted()
    if (request.resource.group, request.resource.resource) == ("", "pods"):
        return (
            arriving_pods.kept(_object(request), _old(request), picture) if request.operation == UPDATE else Admitted()
        )
    old = _old(request) if request.operation == UPDATE else None
    _await(picture)
    rows = taught(picture.sources_of().changed(coming))
    manifest, old = with_row(_object(request), rows), None if old is None else with_row(old, rows)
    about = (manifest,) if old is None else (manifest, old)
    sources = picture.sources_about(*about).changed(coming)
    return object_reviews.checked(manifest, old, sources, forecast, picture)


def _automatic(sources: Sources, namespace: str) -> Sources:
    """The sources with the namespace labelled as the API server has seen it."""
    labels = {**sources.namespaces.get(namespace, {}), keys.AUTOMATIC: "true"}
    return replace(sources, namespaces={**sources.namespaces, namespace: labels})


def _object(request: AdmissionRequest) -> Manifest:
    if request.object is None:
        raise BadReview(f"{request.operation} of {request.resource.resource} without an object")
    return request.object


def _old(request: AdmissionRequest) -> Manifest:
    if request.old_object is None:
        raise BadReview(f"{request.operation} of {request.resource.resource} without its old object")
    return request.old_object


def _without_pods(picture: Picture) -> Sources:
    """What a workload is patched by: no pod has a say in that, and there may be very many."""
    _await(picture)
    return picture.sources_of()


def _await(picture: Picture) -> None:
    if not picture.synced():
        raise Unavailable("still reading the cluster; try again in a few seconds")
