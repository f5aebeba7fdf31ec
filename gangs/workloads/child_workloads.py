"""Child workloads: a CronJob's Job, a RayJob's RayCluster, a TrainJob's JobSet. The child is the gang, not the parent.

The parent's annotations that ask for a gang reach the child in one of two ways. Some operators (KubeRay) copy the
parent's annotations. For other kinds, admission copies them into the field of the parent from which the operator takes
the child's annotations. For some kinds it also copies the label with a queue's name.

From there on, the child is a workload like any other: admission labels its pod templates, and by the labels its pods
belong to the gang (`gangs.labelled_workloads.makers`, `gangs.phalanx.annotated_workloads`). Before the child exists,
`child_of` derives it from the parent for a review or a dry run; for a TrainJob, by `train_jobs.job_set_of`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gangs.manifests import MalformedError, metadata_of, ref_of
from gangs.model import Fault, Manifest
from gangs.workloads.kind_table import ANY, ChildKind, child_kind_of, row_of_child
from gangs.workloads.pod_counts import field_of
from gangs.workloads.pod_templates import at_path, gang_by_annotation, texts_at
from kube.catalog import ObjectKey

Find = Callable[[ObjectKey], Manifest | None]
"""A function that returns an object by its key (group, kind, namespace, name); None if it does not exist."""

_LABELS = "metadata.labels"
_ONE = "write one workload in it, or make a Gang object and label the pod templates phalanx.dev/gang: <its name>"


@dataclass(frozen=True, slots=True)
class ChildWorkload:
    """A child workload that will be the gang, as its operator will create it.

    `at`: the path in the parent of the child's spec. If `elsewhere` is true, another object has that spec (a TrainJob's
    runtime). Then `at` is the path at which the parent names this object.
    """

    manifest: Manifest
    at: str
    elsewhere: bool = False

    def field(self, inner: str) -> str:
        """Return the path in the parent that corresponds to the path `inner` in the child, so that a fault of the child
        can be reported on the parent.

        Paths of metadata are the same in both, because the metadata are copied.
        """
        if inner.partition(".")[0] != "spec":
            return inner
        return self.at if self.elsewhere else f"{self.at}{inner.removeprefix('spec')}"


def has_child(manifest: Manifest) -> bool:
    """Whether the gang that the workload's annotations ask for is a child workload, by the workload's kind."""
    return child_kind_of(manifest) is not None


def copies_labels_to_child(manifest: Manifest) -> bool:
    """Whether the operator copies the workload's labels to its child, and a label can put the child into a queue.

    Example: KubeRay copies the labels of a RayJob to its RayCluster.
    """
    child = child_kind_of(manifest)
    row = None if child is None or child.annotations_at else row_of_child(child)
    return row is not None and row.queued


def labels_of_child(manifest: Manifest, labels: Collection[str]) -> Mapping[str, str]:
    """Return the labels that a child workload gets from its parent `manifest`; empty if the workload has no child.

    If the parent contains the child as a whole object (AppWrapper), the result has only the labels that admission
    copies.

    :param labels: keys of the labels that admission copies for some kinds, such as a queue's name.
    """
    child = child_kind_of(manifest)
    if child is None:
        return {}
    propagated = _propagated_labels(manifest, labels)
    if child.is_whole_object:
        return propagated
    return {**texts_at(manifest, f"{child.metadata_at}.labels" if child.annotations_at else _LABELS), **propagated}


def child_of(
    manifest: Manifest, keys: Collection[str], find: Find, labels: Collection[str] = ()
) -> ChildWorkload | None:
    """Return the child workload that will be the gang, with the annotations and labels that it gets from its parent.

    If the child has a child itself, the latter is returned: the RayCluster of a RayJob in an AppWrapper. Return None
    for a workload without a child, and if the object that describes the child (a TrainJob's runtime) does not exist.
    Raises `MalformedError`.

    :param keys: keys of the annotations that are copied to the child.
    :param find: a look-up of other objects by key.
    :param labels: keys of the labels that are copied to the child.
    """
    kind = child_kind_of(manifest)
    child = None if kind is None else _written_child(manifest, kind, find)
    if kind is None or child is None:
        return None
    metadata = child.manifest["metadata"]
    parts = ((part, metadata.get(part)) for part in ("labels", "annotations"))
    texts = {part: dict(found) for part, found in parts if isinstance(found, Mapping)}
    if kind.annotations_at:
        texts["annotations"] = {**texts.get("annotations", {}), **_propagated_annotations(manifest, keys)}
    if propagated := _propagated_labels(manifest, labels):
        texts["labels"] = {**texts.get("labels", {}), **propagated}
    own = {**metadata, **texts, "namespace": ref_of(manifest).namespace}
    child = replace(child, manifest={**child.manifest, "metadata": own})
    further = child_of(child.manifest, keys, find, labels)
    return child if further is None else replace(further, at=child.field(further.at))


def _written_child(manifest: Manifest, kind: ChildKind, find: Find) -> ChildWorkload | None:
    """Return the child workload from its description, which is in the parent or in an object that the parent names. The
    annotations and labels that Phalanx copies to the child are missing.

    The child has the metadata that its operator copies. Return None if the object that describes the child does not
    exist. Raises `MalformedError`.
    """
    ref = ref_of(manifest)
    if kind.description is not None:
        described = find(kind.description.key(manifest))
        if described is None:
            return None
        return ChildWorkload(kind.description.child(manifest, described), kind.description.named_at, elsewhere=True)
    if kind.is_whole_object:
        way, made = _only_workload(manifest, kind.at)
        metadata = made.get("metadata")
        whole = {**made, "metadata": metadata if isinstance(metadata, Mapping) else {}}
        return ChildWorkload(whole, f"{field_of(way)}.spec")
    spec = at_path(manifest, kind.at)
    if not isinstance(spec, Mapping):
        problem = f"is missing: it says what {kind.kind} is made, which is the gang"
        remedy = f"write it, or annotate the {kind.kind} that this {ref.kind} uses"
        raise MalformedError(Fault(ref, kind.at, problem, remedy))
    if kind.annotations_at:
        metadata = at_path(manifest, kind.metadata_at)
    else:
        metadata_of(manifest)  # raises for malformed metadata, of which `texts_at` drops the malformed parts
        metadata = {part: dict(texts_at(manifest, f"metadata.{part}")) for part in ("labels", "annotations")}
    named = {"generateName": f"{ref.name.rstrip('-')}-"}
    own = {**(metadata if isinstance(metadata, Mapping) else {}), **named}
    return ChildWorkload({"apiVersion": kind.api_version, "kind": kind.kind, "spec": spec, "metadata": own}, kind.at)


def description_of(manifest: Manifest) -> str:
    """Return kind and name of the other object that describes a workload's child, such as a TrainJob's runtime.

    Return "" if the workload itself contains the child. Raises `MalformedError`.
    """
    child = child_kind_of(manifest)
    if child is None or child.description is None:
        return ""
    _, kind, _, name = child.description.key(manifest)
    return f"{kind} {name}"


def has_automatic_child(manifest: Manifest) -> bool:
    """Whether the workload's child is of a kind that is a gang without annotations in a namespace with the label
    `phalanx.dev/automatic`.
    """
    child = child_kind_of(manifest)
    row = None if child is None else row_of_child(child)
    return row is not None and row.automatic


def propagated_fields(
    manifest: Manifest, old: Manifest | None, keys: Collection[str], labels: Collection[str] = ()
) -> Iterator[tuple[tuple[str, ...], str | None]]:
    """Yield the fields that admission writes in a workload so that its operator copies them to the child.

    Each is (path as a tuple of keys, value); None as value removes the field. Raises `MalformedError` if the user has
    written a different value there.

    :param old: the workload before an update; None at its creation. A value that was copied from it is Phalanx's own,
        so it may be changed.
    :param keys: keys of the annotations that are copied.
    :param labels: keys of the labels that are copied.
    """
    yield from _written(manifest, old, keys, _propagated_annotations, "annotations")
    yield from _written(manifest, old, labels, _propagated_labels, "labels")


def _written(
    manifest: Manifest,
    old: Manifest | None,
    keys: Collection[str],
    propagated_from: Callable[[Manifest, Collection[str]], dict[str, str]],
    place: str,
) -> Iterator[tuple[tuple[str, ...], str | None]]:
    before = {} if old is None else propagated_from(old, keys)
    propagated = propagated_from(manifest, keys)
    annotated = _way_to_annotations(manifest) if propagated or before else ()
    if not annotated:
        return
    way = (*annotated[:-1], place)
    ref, there = ref_of(manifest), _at(manifest, way)
    for key in keys:
        stands = there.get(key)
        if key in propagated and stands not in (None, propagated[key], before.get(key)):
            at = f"{field_of(way)}[{key}]"
            problem = f'is "{stands}", but the {ref.kind} itself says "{propagated[key]}"'
            raise MalformedError(Fault(ref, at, problem, "remove one of the two"))
        if key in propagated:
            yield (*way, key), propagated[key]
        elif stands is not None and stands == before.get(key):
            yield (*way, key), None


def lacks_propagated_fields(manifest: Manifest, keys: Collection[str], labels: Collection[str] = ()) -> bool:
    """Whether a field is missing that admission should have written for the child (`propagated_fields`).

    The workload then was created or changed without Phalanx's webhook. Raises `MalformedError`.
    """
    down = propagated_fields(manifest, None, keys, labels)
    return any(_at(manifest, way[:-1]).get(way[-1]) != value for way, value in down)


def _propagated_annotations(manifest: Manifest, keys: Collection[str]) -> dict[str, str]:
    annotations = metadata_of(manifest).annotations
    return {key: annotations[key] for key in keys if key in annotations}


def _propagated_labels(manifest: Manifest, labels: Collection[str]) -> dict[str, str]:
    child = child_kind_of(manifest)
    if child is None or not child.takes_queue:
        return {}
    said = texts_at(manifest, _LABELS)
    return {key: said[key] for key in labels if key in said}


def _way_to_annotations(manifest: Manifest) -> tuple[str, ...]:
    """Return the path, as a tuple of keys, at which admission writes the child's annotations.

    Return () if admission writes none for this kind. Raises `MalformedError`.
    """
    child = child_kind_of(manifest)
    if child is None or not child.annotations_at:
        return ()
    if child.is_whole_object:
        return (*_only_workload(manifest, child.at)[0], "metadata", "annotations")
    return tuple(child.annotations_at.split("."))


def _only_workload(manifest: Manifest, path: str) -> tuple[tuple[str, ...], Mapping[str, Any]]:
    """Return the only workload among the objects that an object contains: its path as a tuple of keys, and itself.

    Raises `MalformedError` if there is none, or more than one.

    :param path: the path of a list, then `*`, then the path of the object in each entry. For an AppWrapper it is
        `spec.components.*.template`.
    """
    ref, (above, _, below) = ref_of(manifest), path.partition(f".{ANY}.")
    written = at_path(manifest, above)
    found: list[tuple[tuple[str, ...], Mapping[str, Any]]] = []
    for position, entry in enumerate(written if isinstance(written, list) else ()):
        made = at_path(entry, below) if isinstance(entry, Mapping) else None
        if isinstance(made, Mapping) and _can_be_gang(made):
            found.append(((*above.split("."), str(position), below), made))
    if len(found) != 1:
        problem = f"holds {len(found) or 'no'} workloads that can be gangs, and what it says itself is for one"
        raise MalformedError(Fault(ref, above, problem, _ONE))
    return found[0]


def _can_be_gang(manifest: Mapping[str, Any]) -> bool:
    if not all(isinstance(manifest.get(part), str) for part in ("apiVersion", "kind")):
        return False
    return gang_by_annotation(manifest) or has_child(manifest)


def _at(manifest: Manifest, way: Sequence[str]) -> Mapping[str, Any]:
    """Return the mapping at a path, given as a sequence of keys and list positions; empty if it is absent.

    Raises `MalformedError` for a value of another type.
    """
    part: Any = manifest
    for depth, step in enumerate(way, start=1):
        part = part[int(step)] if isinstance(part, list) else part.get(step)
        if part is None:
            return {}
        if not isinstance(part, Mapping) and not (isinstance(part, list) and "".join(way[depth : depth + 1]).isdigit()):
            problem, remedy = "is not a mapping", "write a mapping"
            raise MalformedError(Fault(ref_of(manifest), field_of(way[:depth]), problem, remedy))
    return part if isinstance(part, Mapping) else {}
