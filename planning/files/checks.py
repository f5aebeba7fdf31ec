"""Checks an object of a file before its dialect reads it: its version, its fields, and misplaced annotations."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache

from gangs.dialects.table import all_kinds
from gangs.manifests import MalformedError, group_of
from gangs.model import Manifest
from gangs.workloads.annotations import annotation
from gangs.workloads.kind_table import row_of
from gangs.workloads.pod_templates import templates
from gangs.workloads.train_jobs import RUNTIMES
from kube import devices
from kube.keys import ASKING, GROUP
from planning.files.schemas import is_published, remedy_for, unknown_in_pod_spec, versions_of, wrong_by_schema
from planning.files.valid_kinds import wrong_in
from planning.files.valid_metadata import Wrong

_WITH_DEVICES = ("ResourceSlice", "ResourceClaim", "ResourceClaimTemplate", "DeviceTaintRule")
"""Kinds whose older versions have other fields. All versions of a DeviceClass have the fields that are read."""
_DEVICE_VERSIONS = tuple(f"{devices.GROUP}/{version}" for version in devices.VERSIONS)
_ELSEWHERE = {("", "Pod"), (GROUP, "Gang"), *((each.group, each.kind) for each in RUNTIMES)}
"""Kinds besides workloads whose annotations are checked by their own readers."""


def wrong_kind(manifest: Manifest) -> Iterator[Wrong]:
    """Yield the mistake that no API server serves the object's apiVersion or kind.

    It is checked for kinds of Phalanx's group and of Kubernetes itself.
    """
    api_version, kind = manifest["apiVersion"], manifest["kind"]
    group = group_of(api_version)
    if group == GROUP:
        ours = _our_versions()
        if kind not in ours:
            yield "kind", f'"{kind}" is not a kind of {GROUP}; {remedy_for(kind, list(ours))}'
        elif api_version not in ours[kind]:
            yield "apiVersion", f'"{api_version}" is not a version of {kind}; write {ours[kind][0]}'
    elif group == devices.GROUP and kind in _WITH_DEVICES and api_version not in _DEVICE_VERSIONS:
        problem = (
            "has other fields than those that are read" if api_version in versions_of(group, kind) else "is unknown"
        )
        yield "apiVersion", f'"{api_version}" of {kind} {problem}; write {_DEVICE_VERSIONS[0]}'
    elif (versions := versions_of(group, kind)) and api_version not in versions:
        yield "apiVersion", f'"{api_version}" is not a version of {kind}; write {" or ".join(versions)}'


@cache
def _our_versions() -> Mapping[str, list[str]]:
    """Return the apiVersions of each kind in Phalanx's API group, the preferred version first."""
    ours = (each for each in all_kinds() if each.group == GROUP)
    return {each.kind: [f"{GROUP}/{version}" for version in each.versions] for each in ours}


def wrong_fields(manifest: Manifest) -> tuple[Wrong, ...]:
    """Return the mistakes for which the API server would reject an object.

    An object with a uid, or a pod with a node, has been stored by an API server, perhaps of another version. So its
    fields are not checked against the schemas.
    """
    if manifest["metadata"].get("uid") or (manifest["kind"] == "Pod" and _has_node(manifest)):
        return tuple(wrong_in(manifest))
    by_rule = tuple(wrong_in(manifest))
    known = {path for path, _ in by_rule}
    by_schema = (*wrong_by_schema(manifest), *_unknown_in_templates(manifest))
    return (*(each for each in by_schema if each[0] not in known), *by_rule)


def _has_node(manifest: Manifest) -> bool:
    spec = manifest.get("spec")
    return isinstance(spec, Mapping) and bool(spec.get("nodeName"))


def _unknown_in_templates(manifest: Manifest) -> Iterator[Wrong]:
    """Yield the unknown fields in the pod templates of a workload whose own kind has no schema in
    `planning.files.schemas`.
    """
    row = row_of(manifest)
    if row is None or row.bare or row.user_defined_by or is_published(manifest["apiVersion"], manifest["kind"]):
        return
    with suppress(MalformedError):  # the dialects report a malformed template
        for each in templates(manifest):
            yield from unknown_in_pod_spec(each.spec, f"{each.path}.spec")


def asking_on(manifest: Manifest) -> Iterator[Wrong]:
    """Yield the annotations that ask for a gang on an object that creates no pods, where they have no effect."""
    group, kind = group_of(manifest["apiVersion"]), manifest["kind"]
    written = manifest["metadata"].get("annotations")
    if (group, kind) in _ELSEWHERE or row_of(manifest) is not None or not isinstance(written, Mapping):
        return
    for key in ASKING:
        if key in written:
            yield annotation(key), f"asks for nothing on a {kind}; write it on the workload that makes the pods"
