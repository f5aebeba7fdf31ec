"""Which object gets which answer. Pure: reads the picture, asks nobody, writes nothing, the same in dry runs."""

from dataclasses import replace

from gangs.model import Manifest
from gangs.sources import Sources
from gangs.workloads.kind_table import BY_ANNOTATION
from kube import keys
from webhook.admission import absent_schedulers, arriving_pods, objects, suspending
from webhook.admission.arriving_pods import Foretell
from webhook.admission.objects import Forecast
from webhook.admission.reviews import AdmissionRequest, Admitted, Decision
from webhook.errors import BadReview, Unavailable
from webhook.picture import Picture

CREATE = "CREATE"
UPDATE = "UPDATE"
_ANNOTATED = {(group, shape.plural) for group, shape in BY_ANNOTATION.values()}
"""Groups and plurals of the kinds besides the Job whose annotations make gangs."""


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
            return objects.workload_created(_object(request), known)
        case "batch", "jobs", "UPDATE":
            return suspending.updated(request, _object(request), _old(request), _without_pods(picture))
    return (
        _workload(request, picture) if (request.resource.group, request.resource.resource) in _ANNOTATED else Admitted()
    )


def _workload(request: AdmissionRequest, picture: Picture) -> Decision:
    """A workload, no Job, that asks to be a gang."""
    if request.operation == CREATE:
        return objects.workload_created(_object(request), _without_pods(picture))
    return objects.workload_changed(_object(request), _old(request), _without_pods(picture))


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
    if request.sub_resource or request.operation not in (CREATE, UPDATE):
        return Admitted()
    if (request.resource.group, request.resource.resource) == ("", "pods"):
        return (
            arriving_pods.kept(_object(request), _old(request), picture) if request.operation == UPDATE else Admitted()
        )
    old = _old(request) if request.operation == UPDATE else None
    _await(picture)
    manifest = _object(request)
    about = (manifest,) if old is None else (manifest, old)
    return objects.checked(manifest, old, picture.sources_about(*about), forecast, picture.reread)


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
