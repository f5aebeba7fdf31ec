"""Requests for extended resources of DeviceClasses become claims at the CREATE of a gang's member (decision 46).

The workload's pod template stays as its author wrote it, so the workload's manifest can be applied again. If a user
applies a bare pod again, the old requests are taken out of the update.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from cluster.devices.extended_resources import (
    Conversion,
    as_written,
    conversion_of,
    converted_amounts,
    converted_entry,
    entry_to_add,
    provided_by_classes,
)
from gangs.manifests import MalformedError, pod_of, pod_ref
from gangs.model import Advice, Manifest
from gangs.workloads.jobs import controller_of
from kube.keys import CONVERTED
from kube.objects import Container, Pod
from kube.quantities import amount
from kube.requests import extended_resources
from webhook.admission.patch_builder import PatchBuilder
from webhook.errors import Unavailable
from webhook.picture import Picture


def claim_devices(pod: Pod, picture: Picture, patch: PatchBuilder) -> list[Advice]:
    """Replace the pod's requests for extended resources that only a DeviceClass provides by a claim for devices.

    Return advice for the user of a bare pod; empty if nothing changes. A pod of a controller gets no advice, because no
    user sees it. Nothing changes if the installation may not read claims.

    The API server may call the webhook again after another webhook added requests to a converted pod. Then one claim
    takes the place of all requests, so that one template states them.

    :param patch: receives the changes.
    :raises Unavailable: the caches do not show yet whether a DeviceClass provides a resource of the pod.
    """
    if not _provided(pod, picture):
        return []
    written = as_written(pod)
    provided = _provided(written, picture)
    conversion = None
    with suppress(ValueError):  # a quantity that the API server refuses
        conversion = conversion_of(written.spec, provided)
    if conversion is None:
        return []
    _replace_requests(pod, conversion, patch)
    patch.set(("metadata", "annotations", CONVERTED), conversion.annotation)
    if controller_of(pod) is not None:
        return []
    resources_of = ", ".join(f"{resource} (DeviceClass {name})" for resource, name in sorted(provided.items()))
    text = f"the requests for {resources_of} became a ResourceClaim, whose devices are held for the gang"
    return [Advice(pod_ref(pod), "spec.resourceClaims", text)]


def _replace_requests(pod: Pod, conversion: Conversion, patch: PatchBuilder) -> None:
    """Take the requests out of the pod's containers, and add the claim. If the pod has a claim of an earlier
    conversion, the new claim takes its place.

    :param patch: receives the changes.
    """
    before = converted_entry(pod)
    entry = before or entry_to_add(pod.spec)
    for resources, container in _containers(pod):
        for resource in conversion.amounts.get(container.name, {}):
            for part, requested in _parts(container):
                if resource in requested:
                    patch.remove((*resources, part, resource))
        if before is not None:
            patch.drop((*resources, "claims"), "name", before)
        for request in conversion.used.get(container.name, ()):
            patch.append((*resources, "claims"), {"name": entry, "request": request})
    if before is not None:
        patch.drop(("spec", "resourceClaims"), "name", before)
    patch.append(("spec", "resourceClaims"), {"name": entry, "resourceClaimTemplateName": conversion.template})


def _provided(pod: Pod, picture: Picture) -> dict[str, str]:
    """Return the extended resources of the pod that only a DeviceClass provides, each with the class.

    The snapshot is read only if a DeviceClass provides a resource of the pod.
    """
    if next(extended_resources(pod.spec), None) is None:
        return {}
    if not picture.listed("deviceclasses"):
        raise Unavailable("still reading which extended resources DeviceClasses provide; try again in a few seconds")
    classes = picture.devices().classes
    names = {each.spec.extended_resource_name: name for name, each in classes.items()}
    if not classes or not provided_by_classes(pod.spec, names, ()):
        return {}
    if not picture.synced():
        raise Unavailable("still reading which devices there are; try again in a few seconds")
    snapshot = picture.snapshot()
    if snapshot.devices is None:
        return {}
    return provided_by_classes(pod.spec, snapshot.device_classes, snapshot.allocatable_resources)


def _containers(pod: Pod) -> Iterator[tuple[tuple[str, ...], Container]]:
    """Yield each container of the pod, with the path of its field `resources`."""
    for field, containers in (("containers", pod.spec.containers), ("initContainers", pod.spec.init_containers)):
        for at, container in enumerate(containers):
            yield ("spec", field, str(at), "resources"), container


def _parts(container: Container) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    return ("limits", container.resources.limits), ("requests", container.resources.requests)


def keep_claims(manifest: Manifest, old: Manifest, patch: PatchBuilder) -> None:
    """Remove from an update of a pod the requests that the claim of the stored pod has replaced.

    A request with another amount stays in the update, so that the API server refuses the change.

    :param old: the stored pod.
    :param patch: receives the changes.
    """
    try:
        stored = pod_of(old)
        coming = pod_of(manifest)
    except MalformedError:
        return
    amounts = converted_amounts(stored)
    for resources, container in _containers(coming) if amounts else ():
        for resource, value in amounts.get(container.name, {}).items():
            for part, written in _parts(container):
                if _is(resource, written, value):
                    patch.remove((*resources, part, resource))


def _is(resource: str, written: Mapping[str, Any], value: int) -> bool:
    with suppress(ValueError):
        return resource in written and amount(resource, written[resource]) == value
    return False
