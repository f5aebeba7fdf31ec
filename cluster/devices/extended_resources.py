"""Requests for extended resources that a DeviceClass provides, as resource claims (docs/decisions/0046).

kube-scheduler creates the claim for such a request itself while it binds the pod, and deletes a claim of another client
(1.37, `extendeddynamicresources.go`). So no other client can hold the devices. The webhook therefore replaces the
requests of a gang's member by a claim from a template, with the requests that the scheduler's claim would have.
"""

import hashlib
from collections import Counter
from collections.abc import Container as Holding
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from cluster.classes import IMPLICIT_RESOURCE
from kube.devices import (
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)
from kube.keys import CLAIM_ENTRY, CONVERTED
from kube.objects import Container, ObjectMeta, Pod, PodSpec, ResourceRequirements
from kube.quantities import amount
from kube.requests import extended_resources

MOST_REQUESTS = 32
"""The most requests that the API server accepts in one claim (`DeviceRequestsMaxSize`)."""
_SIDECAR = "Always"


class ClassRequest(NamedTuple):
    """A request of the claim: this `number` of devices of a DeviceClass."""

    name: str
    device_class: str
    number: int


class _Record(msgspec.Struct, frozen=True):
    """The content of the annotation `CONVERTED`: the requests for extended resources that a claim replaces.

    `containers`: by container, the amounts by resource.
    """

    requests: tuple[ClassRequest, ...]
    containers: dict[str, dict[str, int]]


_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(_Record).decode


@dataclass(frozen=True, slots=True)
class Conversion:
    """The claim that takes the place of a pod's requests for extended resources.

    `requests`: of the claim. `used`: by container, the names of the requests whose devices the container uses.
    `amounts`: by container, the requests that are taken out of it, by resource.
    """

    requests: tuple[ClassRequest, ...]
    used: Mapping[str, tuple[str, ...]]
    amounts: Mapping[str, Mapping[str, int]]

    @property
    def template(self) -> str:
        """The name of the ResourceClaimTemplate. It is a digest of the requests, so equal pods share a template."""
        return _template_name(self.requests)

    @property
    def annotation(self) -> str:
        """The value of the pod's annotation `CONVERTED`."""
        return _encode(_Record(self.requests, {name: dict(each) for name, each in self.amounts.items()})).decode()


def classes_by_resource(classes: Iterable[DeviceClass]) -> dict[str, str]:
    """Return, by extended resource, the name of the DeviceClass that provides it (`spec.extendedResourceName`).

    If several classes provide the resource, the scheduler uses the youngest of them, then the first by name (KEP 5004).
    """
    ordered = sorted(classes, key=lambda each: each.metadata.name, reverse=True)
    ordered.sort(key=lambda each: each.metadata.creation_timestamp or "")
    return {name: each.metadata.name for each in ordered if (name := each.spec.extended_resource_name)}


def provided_by_classes(spec: PodSpec, classes: Mapping[str, str], allocatable: Holding[str]) -> dict[str, str]:
    """Return the extended resources of the pod that only a DeviceClass provides, each with the name of the class.

    :param classes: by extended resource, the name of the DeviceClass that provides it (`spec.extendedResourceName`).
    :param allocatable: the resources that a node has in `status.allocatable`. For these, no class is returned.
    """
    found = dict[str, str]()
    for resource in extended_resources(spec):
        if resource in allocatable:
            continue
        if resource.startswith(IMPLICIT_RESOURCE):
            found[resource] = resource.removeprefix(IMPLICIT_RESOURCE)
        elif resource in classes:
            found[resource] = classes[resource]
    return found


def conversion_of(spec: PodSpec, provided: Mapping[str, str]) -> Conversion | None:
    """Return the claim that takes the place of the pod's requests for the resources in `provided`.

    None if nothing is requested of them, or if the claim would have more than `MOST_REQUESTS` requests. As in
    kube-scheduler, an init container uses the devices of containers that start after it, before it gets devices of its
    own.

    :param provided: by resource, the DeviceClass that provides it.
    :raises ValueError: a quantity cannot be parsed.
    """
    found = _unlimited(spec, provided)
    return found if 0 < len(found.requests) <= MOST_REQUESTS else None


def requests_needed(spec: PodSpec, provided: Mapping[str, str]) -> int:
    """Return how many requests a claim for the pod's requests for these resources has. It may be more than
    `MOST_REQUESTS`.

    :param provided: by resource, the DeviceClass that provides it.
    :raises ValueError: a quantity cannot be parsed.
    """
    return len(_unlimited(spec, provided).requests)


def _unlimited(spec: PodSpec, provided: Mapping[str, str]) -> Conversion:
    """Return the claim for the pod's requests for these resources, with any number of requests."""
    containers = (*spec.init_containers, *spec.containers)
    asked = [_asked(each, provided) for each in containers]
    short = [at for at, each in enumerate(spec.init_containers) if each.restart_policy != _SIDECAR]
    requests, used = list[ClassRequest](), dict[str, list[str]]()
    for resource, device_class in sorted(provided.items()):
        wanted = {
            at: ClassRequest(_request_name(at, containers[at], resource), device_class, amounts[resource])
            for at, amounts in enumerate(asked)
            if resource in amounts
        }
        found, names = _requests_of(wanted, short)
        requests += found
        for at, each in names.items():
            used.setdefault(containers[at].name, []).extend(each)
    amounts_by_name = {each.name: amounts for each, amounts in zip(containers, asked, strict=True) if amounts}
    return Conversion(tuple(sorted(requests)), {name: tuple(each) for name, each in used.items()}, amounts_by_name)


def _requests_of(
    wanted: Mapping[int, ClassRequest], short: Sequence[int]
) -> tuple[list[ClassRequest], dict[int, list[str]]]:
    """Return the requests for one resource, and by container the names of those whose devices it uses.

    All init containers that lack devices share the largest of their requests.

    :param wanted: the requests of the containers, by position, as if no container used the devices of another one.
    :param short: the positions of init containers that end before the next container starts.
    """
    own = {at: each for at, each in wanted.items() if at not in short}
    used = {at: [each.name] for at, each in own.items()}
    largest: ClassRequest | None = None
    lacking = list[int]()
    for at in short:
        if at not in wanted:
            continue
        used[at], rest = _reused([own[later] for later in sorted(own) if later > at], wanted[at].number)
        if rest:
            lacking.append(at)
            if largest is None or largest.number < rest:
                largest = wanted[at]._replace(number=rest)
    if largest is None:
        return [*own.values()], used
    for at in lacking:
        used[at].append(largest.name)
    return [*own.values(), largest], used


def _asked(container: Container, provided: Mapping[str, str]) -> dict[str, int]:
    written = {**container.resources.limits, **container.resources.requests}
    amounts = {name: amount(name, quantity) for name, quantity in written.items() if name in provided}
    return {name: value for name, value in amounts.items() if value}


def _request_name(at: int, container: Container, resource: str) -> str:
    """Return the name that kube-scheduler gives to the request: by container, and by resource in alphabetical order."""
    names = sorted({**container.resources.limits, **container.resources.requests})
    return f"container-{at}-request-{names.index(resource)}"


def _reused(later: Sequence[ClassRequest], wanted: int) -> tuple[list[str], int]:
    """Return the requests of later containers whose devices an init container uses, and how many devices it lacks."""
    found = list[str]()
    for each in later:
        if wanted <= 0:
            break
        found.append(each.name)
        wanted -= each.number
    return found, max(0, wanted)


def entry_to_add(spec: PodSpec) -> str:
    """Return the name of the entry of `spec.resourceClaims` that conversion adds: `CLAIM_ENTRY`, with a number if the
    pod has an entry of that name. The names of a pod's entries must differ.
    """
    taken = {each.get("name") for each in spec.resource_claims}
    names = (CLAIM_ENTRY if number == 1 else f"{CLAIM_ENTRY}-{number}" for number in count(1))
    return next(name for name in names if name not in taken)


def converted(pod: Pod, conversion: Conversion) -> Pod:
    """Return the pod with the claim in place of its requests for extended resources."""
    amounts = conversion.amounts
    entry = {"name": entry_to_add(pod.spec), "resourceClaimTemplateName": conversion.template}
    spec = replace(
        pod.spec,
        containers=tuple(_without(each, amounts.get(each.name, {})) for each in pod.spec.containers),
        init_containers=tuple(_without(each, amounts.get(each.name, {})) for each in pod.spec.init_containers),
        resource_claims=(*pod.spec.resource_claims, entry),
    )
    annotations = {**pod.metadata.annotations, CONVERTED: conversion.annotation}
    return replace(pod, spec=spec, metadata=replace(pod.metadata, annotations=annotations))


def _without(container: Container, amounts: Mapping[str, int]) -> Container:
    if not amounts:
        return container
    old = container.resources
    requests, limits = (
        {name: each for name, each in part.items() if name not in amounts} for part in (old.requests, old.limits)
    )
    return replace(container, resources=ResourceRequirements(requests=requests, limits=limits))


def as_written(pod: Pod) -> Pod:
    """Return a converted pod with the requests that its author wrote, and other pods unchanged.

    The claim stays in the spec. If the annotation `CONVERTED` does not fit the claim, the pod is returned unchanged.
    """
    record = _record(pod)
    if record is None:
        return pod
    spec = replace(
        pod.spec,
        containers=tuple(_with(each, record.containers.get(each.name, {})) for each in pod.spec.containers),
        init_containers=tuple(_with(each, record.containers.get(each.name, {})) for each in pod.spec.init_containers),
    )
    return replace(pod, spec=spec)


def _with(container: Container, amounts: Mapping[str, int]) -> Container:
    added = {name: str(value) for name, value in amounts.items()}
    old = container.resources
    return replace(
        container, resources=replace(old, requests={**old.requests, **added}, limits={**old.limits, **added})
    )


def converted_amounts(pod: Pod) -> Mapping[str, Mapping[str, int]]:
    """Return the requests that conversion took out of the pod: by container, the amounts by resource."""
    record = _record(pod)
    return {} if record is None else record.containers


def template_of(pod: Pod) -> ResourceClaimTemplate | None:
    """Return the template that a converted pod names, as conversion defines it; None for other pods."""
    record = _record(pod)
    if record is None:
        return None
    requests = tuple(
        DeviceRequest(
            name=each.name, exactly=ExactDeviceRequest(device_class_name=each.device_class, count=each.number)
        )
        for each in record.requests
    )
    metadata = ObjectMeta(name=_template_name(record.requests), namespace=pod.metadata.namespace)
    spec = ResourceClaimSpec(devices=DeviceClaim(requests=requests))
    return ResourceClaimTemplate(metadata=metadata, spec=ResourceClaimTemplateSpec(spec=spec))


def is_as_written(pod: Pod, claim: ResourceClaimSpec, classes: Mapping[str, str]) -> bool:
    """Return whether a converted pod's claim is for the same devices as the requests that `as_written` gives back.

    A user can write the annotation `CONVERTED`, and create another template with the name that conversion gives.

    :param claim: what the claim of the entry `converted_entry` asks for.
    :param classes: by extended resource, the name of the DeviceClass that provides it.
    """
    record, template = _record(pod), template_of(pod)
    if record is None or template is None or claim.devices.requests != template.spec.spec.devices.requests:
        return False
    taken_out = {resource for amounts in record.containers.values() for resource in amounts}
    spec = as_written(pod).spec
    provided = {name: each for name, each in provided_by_classes(spec, classes, ()).items() if name in taken_out}
    again = conversion_of(spec, provided)
    return again is not None and _by_class(again.requests) == _by_class(record.requests)


def _by_class(requests: Iterable[ClassRequest]) -> Counter[str]:
    found = Counter[str]()
    for each in requests:
        found[each.device_class] += each.number
    return found


def _record(pod: Pod) -> _Record | None:
    """Return the content of the annotation `CONVERTED`; None if there is none, or if it does not fit the pod's claim.

    A user can write the annotation. The name of the template is a digest of its requests, so a user cannot change them.
    """
    text = pod.metadata.annotations.get(CONVERTED)
    if text is None:
        return None
    try:
        record = _decode(text)
    except msgspec.DecodeError:
        return None
    written = (value for amounts in record.containers.values() for value in amounts.values())
    if any(value < 1 for value in (*written, *(each.number for each in record.requests))):
        return None
    return record if _entry(pod, record) is not None else None


def converted_entry(pod: Pod) -> str | None:
    """Return the name of the entry of `spec.resourceClaims` that conversion added; None if the pod is not converted."""
    record = _record(pod)
    return None if record is None else _entry(pod, record)


def _entry(pod: Pod, record: _Record) -> str | None:
    """Return the name of the pod's entry with the template of these requests; None if there is none.

    The template decides, not the name of the entry: a user may have an entry with the name that conversion prefers.
    """
    template = _template_name(record.requests)
    entries = (each for each in pod.spec.resource_claims if each.get("resourceClaimTemplateName") == template)
    return next((str(each.get("name")) for each in entries), None)


def _template_name(requests: Sequence[ClassRequest]) -> str:
    return f"phalanx-{hashlib.sha256(_encode(tuple(requests))).hexdigest()[:16]}"
