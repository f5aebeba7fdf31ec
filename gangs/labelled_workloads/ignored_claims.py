"""The annotation `phalanx.dev/ignore-resource-claims`, by which a gang is released although its pods need devices.

Without the annotation, a gang stays gated if its pods need devices that Phalanx does not plan
(`planning.scheduler_rules.resource_claims`). The annotation has this effect on the object that asks for the gang, on
its group objects, and on each workload that owns its pods. On pods it has the effect only if all pods with claims have
it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from gangs.findings import Findings
from gangs.manifests import group_of, pod_ref, ref_of
from gangs.model import Fault, Gang, Manifest, ObjectRef, Reading
from gangs.sources import Sources
from gangs.workloads.jobs import controller_of
from kube.keys import IGNORE_CLAIMS
from kube.requests import needs_devices

FIELD = f"metadata.annotations[{IGNORE_CLAIMS}]"

_GENERATIONS = 4
"""How many owners above a pod are looked up. A pod of a TrainJob has three: Job, JobSet and TrainJob."""


def with_ignored_claims(reading: Reading, sources: Sources) -> Reading:
    """Return the reading with `Gang.ignores_claims` set: whether the gang is planned as if it had no ResourceClaims.

    The annotation `phalanx.dev/ignore-resource-claims` of its pods or of their owners decides. A gang with another
    value than "true" or "false" is left out, and a fault is reported.
    """
    if not any(needs_devices(member.pod.spec) for gang in reading.gangs for member in gang.members):
        return reading
    gangs, faults = list[Gang](), list(reading.faults)
    for gang in reading.gangs:
        if not any(needs_devices(member.pod.spec) for member in gang.members):
            gangs.append(gang)
            continue
        said = dict(_annotated(gang, sources))
        wrong = [_fault(ref, value) for ref, value in said.items() if value not in ("true", "false")]
        faults += wrong
        above = any(value == "true" for ref, value in said.items() if ref.kind != "Pod")
        if not wrong:
            gangs.append(replace(gang, ignores_claims=True) if above or _on_every_pod(gang) else gang)
    return replace(reading, gangs=tuple(gangs), faults=tuple(dict.fromkeys(faults)))


def _on_every_pod(gang: Gang) -> bool:
    """Whether `phalanx.dev/ignore-resource-claims` is "true" on each unbound pod of the gang that has resource claims.

    If no unbound pod has claims, each one that requests an extended resource must have the annotation. If there is none
    either, the result is False.
    """
    pods = [member.pod for member in gang.members if not member.pod.bound and needs_devices(member.pod.spec)]
    pods = [pod for pod in pods if pod.spec.resource_claims] or pods
    return bool(pods) and all(pod.metadata.annotations.get(IGNORE_CLAIMS) == "true" for pod in pods)


def check(ref: ObjectRef, annotations: Mapping[str, str], findings: Findings) -> None:
    """Report an invalid `phalanx.dev/ignore-resource-claims` annotation of a workload or a group object."""
    value = annotations.get(IGNORE_CLAIMS, "false")
    if value not in ("true", "false"):
        findings.take([_fault(ref, value)])


def _fault(ref: ObjectRef, value: str) -> Fault:
    remedy = 'write "true" to release the gang although no plan is made for its devices, or remove the annotation'
    return Fault(ref, FIELD, f'"{value}" is neither "true" nor "false"', remedy)


def _annotated(gang: Gang, sources: Sources) -> Iterator[tuple[ObjectRef, str]]:
    """Yield the objects and pods of a gang with the annotation `phalanx.dev/ignore-resource-claims`, each with its
    value.
    """
    for pod in (member.pod for member in gang.members if IGNORE_CLAIMS in member.pod.metadata.annotations):
        yield pod_ref(pod), pod.metadata.annotations[IGNORE_CLAIMS]
    for manifest in _objects(gang, sources):
        annotations = (manifest.get("metadata") or {}).get("annotations")
        if isinstance(annotations, Mapping) and IGNORE_CLAIMS in annotations:
            yield ref_of(manifest), str(annotations[IGNORE_CLAIMS])


def _objects(gang: Gang, sources: Sources) -> Iterator[Manifest]:
    """Yield the existing objects that ask for the gang, and the existing owners of its pods, up to `_GENERATIONS`."""
    owners = {controller_of(member.pod) for member in gang.members} - {None}
    refs = {ref for ref in (gang.source, *gang.groups) if ref.kind != "Pod"}
    refs |= {
        ObjectRef(owner.api_version, owner.kind, gang.key.namespace, owner.name)
        for owner in owners
        if owner is not None
    }
    for _ in range(_GENERATIONS):
        found = [manifest for ref in sorted(refs) if (manifest := _get(ref, sources)) is not None]
        yield from found
        refs = {above for manifest in found if (above := _controller(manifest)) is not None}


def _get(ref: ObjectRef, sources: Sources) -> Manifest | None:
    return sources.get(group_of(ref.api_version), ref.kind, ref.namespace, ref.name)


def _controller(manifest: Manifest) -> ObjectRef | None:
    """Return the owner that controls an object; None if there is none. It is in the object's own namespace."""
    owners = (manifest.get("metadata") or {}).get("ownerReferences")
    for each in owners if isinstance(owners, list) else ():
        if isinstance(each, Mapping) and each.get("controller") is True:
            api_version, kind, name = (str(each.get(part, "")) for part in ("apiVersion", "kind", "name"))
            return ObjectRef(api_version, kind, ref_of(manifest).namespace, name)
    return None
