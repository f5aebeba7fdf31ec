"""The changes that admission makes to a workload that asks for a gang: labels on its pod templates, and its resumption.

By the labels, the pods of the workload name their gang.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from gangs.coexistence.ownership import systems_ceded_to
from gangs.dialects.claims import dialect_of
from gangs.dialects.protocol import ByWorkload, Dialect, Propagating, Queueing, Resuming
from gangs.dialects.table import DIALECTS
from gangs.manifests import MalformedError, key_of, metadata_of
from gangs.model import Manifest
from gangs.sources import Sources
from gangs.workloads.child_workloads import (
    child_of,
    copies_labels_to_child,
    propagated_fields,
)
from gangs.workloads.kind_table import child_kind_of, row_of
from gangs.workloads.later_pods.pods_to_come import example_pods
from gangs.workloads.pod_templates import at_path
from gangs.workloads.suspension import suspended_at
from gangs.workloads.template_marks import with_labels
from kube import keys

_PROPAGATED = tuple(key for each in DIALECTS if isinstance(each, Propagating) for key in each.propagated)
"""Keys of the annotations that are copied from a workload to its child workload."""


def template_labels(manifest: Manifest, sources: Sources) -> dict[str, str]:
    """Return the labels that admission adds to the pod templates of a workload that asks for a gang.

    By these labels its pods name their gang. The result is empty if the object is no workload or asks for no gang.
    Raises `MalformedError`.
    """
    row, ours = row_of(manifest), _ours(sources)
    if row is None or not row.automatic:
        return {} if row is None else _labels(ours, manifest, sources, claimed=True)
    others = [each for each in DIALECTS if each not in ours and asks_in(each, manifest, sources)]
    claimed = bool(others) or any(dialect_of(pod) is not None for pod in example_pods(manifest))
    # An explicit request overrides the automatic gang of an unclaimed workload.
    asked = _labels(ours, manifest, sources, claimed=True)
    return asked if asked or claimed else _labels(ours, manifest, sources, claimed=False)


def queued(manifest: Manifest, sources: Sources) -> bool:
    """Whether a workload names a queue, and Phalanx handles the queue's dialect. Raises `MalformedError`.

    Users create such a workload suspended, and admission resumes it.
    """
    return any(isinstance(each, Resuming) and each.resumes(manifest) for each in _ours(sources))


def as_admitted(manifest: Manifest, sources: Sources) -> Manifest:
    """Return the object as it is after admission.

    A workload that asks for a gang has the labels of `template_labels` on its pod templates, and is resumed if a queue
    would resume it.
    """
    labels = template_labels(manifest, sources)
    if _started(manifest, sources):
        manifest = _resumed(manifest, suspended_at(manifest).split("."))
    return with_labels(manifest, labels) if labels else manifest


def fields_for_child(
    manifest: Manifest, old: Manifest | None, sources: Sources
) -> Iterator[tuple[tuple[str, ...], str | None]]:
    """Yield the fields that admission writes in a workload so that its operator copies them to the child workload.

    Each is (path as a tuple of keys, value). None as value removes the field. Raises `MalformedError`.

    :param old: the workload before an update; None at its creation.
    """
    return propagated_fields(manifest, old, _PROPAGATED, _labels_propagated(sources))


def as_made(manifest: Manifest, sources: Sources) -> Manifest:
    """Return the child workload that its operator creates and that is the gang (a TrainJob's JobSet).

    If there is no such child, return the object itself. Raises `MalformedError`.
    """
    kind = child_kind_of(manifest)
    if kind is None:
        return manifest
    said = metadata_of(manifest).annotations
    asked = any(isinstance(each, Propagating) and each.asks(said) for each in _ours(sources))
    if not asked and kind.annotations_at:
        asks = asks_in if kind.is_whole_object else _asks_as_a_whole
        return _that_asks_itself(manifest, sources, asks)
    if not asked and not copies_labels_to_child(manifest):
        return manifest
    child = child_of(manifest, _PROPAGATED, sources.find, _labels_propagated(sources))
    return child.manifest if child is not None and (asked or _grouped_by_kind(child.manifest, sources)) else manifest


def _that_asks_itself(
    manifest: Manifest, sources: Sources, asks: Callable[[Dialect, Manifest, Sources], bool]
) -> Manifest:
    """Return the only child of a workload if the child itself asks to be a gang; else the workload.

    :param asks: a function that returns whether a workload asks to be a gang in a dialect.
    """
    with suppress(MalformedError):  # without exactly one child, no child is the gang in place of the workload
        child = child_of(manifest, _PROPAGATED, sources.find, _labels_propagated(sources))
        if child is not None and any(asks(each, child.manifest, sources) for each in _ours(sources)):
            return child.manifest
    return manifest


def _grouped_by_kind(manifest: Manifest, sources: Sources) -> bool:
    """Whether the workload's pods are a gang because of its kind (`ByWorkload`), in a dialect that is not ceded."""
    name, pods = key_of(manifest)[3], example_pods(as_admitted(manifest, sources))
    claims = (each.gang_of(pod) for each in _ours(sources) if isinstance(each, ByWorkload) for pod in pods)
    return any(claim is not None and claim.name == name for claim in claims)


def asks_in(dialect: Dialect, workload: Manifest, sources: Sources) -> bool:
    """Whether a workload, or a pod template of it, asks for a gang in this dialect. The dialect may be ceded."""
    asked = dialect.template_labels(workload, sources, claimed=True)
    return bool(asked) or any(dialect.gang_of(pod) is not None for pod in example_pods(workload))


def _asks_as_a_whole(dialect: Dialect, workload: Manifest, sources: Sources) -> bool:
    """Whether the metadata of the workload itself ask for a gang in this dialect.

    A gang that its pods name does not count, because pods of other workloads may be in that gang.
    """
    return bool(dialect.template_labels(workload, sources, claimed=True))


def _labels_propagated(sources: Sources) -> tuple[str, ...]:
    """Return the keys of the labels that Phalanx copies from a workload to its child.

    Labels of ceded dialects are left out, because their own system copies them.
    """
    return tuple(key for each in _ours(sources) if isinstance(each, Queueing) for key in each.workload_labels)


def _ours(sources: Sources) -> list[Dialect]:
    """Return the dialects that are not ceded to another system, in order of precedence."""
    left = systems_ceded_to(sources)
    return [each for each in DIALECTS if each.name not in left]


def _labels(dialects: Sequence[Dialect], manifest: Manifest, sources: Sources, *, claimed: bool) -> dict[str, str]:
    labels: dict[str, str] = {}
    for dialect in dialects:  # if two dialects write a label, the first one wins, as in `dialect_of`
        labels = {**dialect.template_labels(manifest, sources, claimed=claimed), **labels}
    return labels


def _started(manifest: Manifest, sources: Sources) -> bool:
    """Whether admission resumes a workload: it is suspended and in a queue, and it is new.

    A workload that was admitted before is not resumed, because a user has suspended it on purpose.
    """
    at = suspended_at(manifest)
    if not at or at_path(manifest, at) is not True:
        return False
    metadata = manifest.get("metadata") or {}
    admitted = metadata.get("uid") and keys.CREATED_SUSPENDED in (metadata.get("annotations") or {})
    return not admitted and queued(manifest, sources)


def _resumed(part: Mapping[str, Any], way: Sequence[str]) -> dict[str, Any]:
    """Return a copy of a mapping with the field at `way`, a path as a sequence of keys, set to False."""
    return {**part, way[0]: _resumed(part[way[0]], way[1:]) if way[1:] else False}
