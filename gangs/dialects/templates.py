"""What a workload's pod template gets at its admission, so that its pods are known as a gang's.

A workload and the sources come in; labels, or the workload as it is once admitted, go out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from gangs.coexistence.ownership import left_to
from gangs.dialects.claims import dialect_of
from gangs.dialects.protocol import ByWorkload, Dialect, HandingDown, Queueing, Resuming
from gangs.dialects.table import DIALECTS
from gangs.manifests import MalformedError, key_of, metadata_of
from gangs.model import Manifest
from gangs.sources import Sources
from gangs.workloads.handed_down import (
    hands_down,
    hands_labels_down,
    has_heirs_metadata,
    heir_of,
    holds_its_heir,
    written_down,
)
from gangs.workloads.jobs import example_pod, is_job
from gangs.workloads.kind_table import shape_of
from gangs.workloads.later_pods.pods_to_come import example_pods
from gangs.workloads.pod_templates import at_path
from gangs.workloads.suspension import suspended_at
from gangs.workloads.template_marks import with_labels
from kube import keys
from kube.objects import Pod

_HANDED = tuple(key for each in DIALECTS if isinstance(each, HandingDown) for key in each.handed)
"""Annotations that workloads hand down to the objects made of them."""


def examples(workload: Manifest) -> tuple[Pod, ...]:
    """A pod of each template, as the workload makes them. Raises `MalformedError`."""
    return (example_pod(workload),) if is_job(workload) else example_pods(workload)


def template_labels(manifest: Manifest, sources: Sources) -> dict[str, str]:
    """Labels that a workload's pod template gets at its admission, so that its pods are known as a gang's.

    Empty for everything that is no workload or asks for nothing. Raises `MalformedError`.
    """
    if not is_job(manifest):
        return {} if shape_of(manifest) is None else _labels(_ours(sources), manifest, sources, claimed=True)
    ours = _ours(sources)
    others = [each for each in DIALECTS if each not in ours and asks_in(each, manifest, sources)]
    claimed = bool(others) or dialect_of(example_pod(manifest)) is not None
    # What is asked for in so many words goes before what is automatic.
    asked = _labels(ours, manifest, sources, claimed=True)
    return asked if asked or claimed else _labels(ours, manifest, sources, claimed=False)


def queued(manifest: Manifest, sources: Sources) -> bool:
    """Whether a workload is in a queue of ours: one that is suspended from the start is so for its queue to resume it.

    Raises `MalformedError`.
    """
    return any(isinstance(each, Resuming) and each.resumes(manifest) for each in _ours(sources))


def as_admitted(manifest: Manifest, sources: Sources) -> Manifest:
    """The object as it is after admission: a workload that asks for a gang has its template labelled."""
    labels = template_labels(manifest, sources)
    if _started(manifest, sources):
        manifest = _resumed(manifest, suspended_at(manifest).split("."))
    if not labels:
        return manifest
    if not is_job(manifest):
        return with_labels(manifest, labels)
    spec = manifest.get("spec") or {}
    template = spec.get("template") or {}
    metadata = template.get("metadata") or {}
    labelled = {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}}
    return {**manifest, "spec": {**spec, "template": {**template, "metadata": labelled}}}


def handed_down(
    manifest: Manifest, old: Manifest | None, sources: Sources
) -> Iterator[tuple[tuple[str, ...], str | None]]:
    """What admission writes down in a workload for the object made of it that is the gang: ways, values (None: out).

    Raises `MalformedError`.
    """
    return written_down(manifest, old, _HANDED, _labels_handed(sources))


def as_made(manifest: Manifest, sources: Sources) -> Manifest:
    """The object made of a workload that is the gang in its place; any other as it is. Raises `MalformedError`."""
    said = metadata_of(manifest).annotations if hands_down(manifest) else {}
    asked = any(isinstance(each, HandingDown) and each.asks(said) for each in _ours(sources))
    if not asked and holds_its_heir(manifest):
        return _that_asks_itself(manifest, sources, asks_in)
    if not asked and has_heirs_metadata(manifest):
        return _that_asks_itself(manifest, sources, _asks_as_a_whole)
    if not asked and not hands_labels_down(manifest):
        return manifest
    heir = heir_of(manifest, _HANDED, sources.find, _labels_handed(sources))
    return heir.manifest if heir is not None and (asked or _grouped_by_kind(heir.manifest, sources)) else manifest


def _that_asks_itself(
    manifest: Manifest, sources: Sources, asks: Callable[[Dialect, Manifest, Sources], bool]
) -> Manifest:
    """The only workload that another one holds, where it asks to be a gang itself; else the one that holds it."""
    with suppress(MalformedError):  # of none or several nothing is asked: each is for itself
        heir = heir_of(manifest, _HANDED, sources.find, _labels_handed(sources))
        if heir is not None and any(asks(each, heir.manifest, sources) for each in _ours(sources)):
            return heir.manifest
    return manifest


def _grouped_by_kind(manifest: Manifest, sources: Sources) -> bool:
    """Whether a dialect of ours makes one gang of the workload's pods because it made them."""
    name, pods = key_of(manifest)[3], examples(as_admitted(manifest, sources))
    claims = (each.gang_of(pod) for each in _ours(sources) if isinstance(each, ByWorkload) for pod in pods)
    return any(claim is not None and claim.name == name for claim in claims)


def asks_in(dialect: Dialect, workload: Manifest, sources: Sources) -> bool:
    """Whether a workload would ask to be a gang in this dialect, whoever runs in the cluster."""
    asked = dialect.template_labels(workload, sources, claimed=True)
    return bool(asked) or any(dialect.gang_of(pod) is not None for pod in examples(workload))


def _asks_as_a_whole(dialect: Dialect, workload: Manifest, sources: Sources) -> bool:
    """Likewise by what the workload says itself, and not by a group that its pods name: others may be in that."""
    return bool(dialect.template_labels(workload, sources, claimed=True))


def _labels_handed(sources: Sources) -> tuple[str, ...]:
    """Labels that workloads of some kinds hand down. Where the system runs whose they are, it sees to that itself."""
    return tuple(key for each in _ours(sources) if isinstance(each, Queueing) for key in each.workload_labels)


def _ours(sources: Sources) -> list[Dialect]:
    """The dialects that are not left to another system."""
    left = left_to(sources)
    return [each for each in DIALECTS if each.name not in left]


def _labels(dialects: Sequence[Dialect], manifest: Manifest, sources: Sources, *, claimed: bool) -> dict[str, str]:
    labels: dict[str, str] = {}
    for dialect in dialects:  # a label that two would write is that of the first, as in `dialect_of`
        labels = {**dialect.template_labels(manifest, sources, claimed=claimed), **labels}
    return labels


def _started(manifest: Manifest, sources: Sources) -> bool:
    """Whether a workload that is suspended starts all the same. One that was admitted before is so by its user."""
    at = suspended_at(manifest)
    if not at or at_path(manifest, at) is not True:
        return False
    metadata = manifest.get("metadata") or {}
    admitted = metadata.get("uid") and keys.CREATED_SUSPENDED in (metadata.get("annotations") or {})
    return not admitted and queued(manifest, sources)


def _resumed(part: Mapping[str, Any], way: Sequence[str]) -> dict[str, Any]:
    """A workload whose suspension, which stands there, is lifted."""
    return {**part, way[0]: _resumed(part[way[0]], way[1:]) if way[1:] else False}
