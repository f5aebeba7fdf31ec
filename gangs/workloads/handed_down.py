"""Child workloads: a CronJob's Job, a RayJob's RayCluster, a TrainJob's JobSet. The child is the gang, not the parent.

The parent's placement request reaches the child in one of two ways. Some operators (KubeRay) copy the annotations of
the parent. For other kinds, admission writes the annotations to the field from which the operator takes the child's
annotations. For some kinds it also writes a queue's name to the child's labels.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gangs.manifests import MalformedError, group_of, metadata_of, ref_of
from gangs.model import Fault, Manifest
from gangs.workloads.kind_table import ANY, WORKLOADS, shape_of
from gangs.workloads.pod_counts import field_of
from gangs.workloads.pod_templates import at_path, gang_by_annotation, texts_at
from gangs.workloads.train_jobs import NAMED_AT, job_set_of, runtime_of
from kube.catalog import ObjectKey

Find = Callable[[ObjectKey], Manifest | None]
"""A lookup of another object by its key; None if it is unknown."""

_LABELS = "metadata.labels"
_ONE = "write one workload in it, or make a Gang object and label the pod templates phalanx.dev/gang: <its name>"


@dataclass(frozen=True, slots=True)
class Heir:
    """A child workload that will be the gang, as its operator will create it.

    `at`: the path in the parent of the child's spec. If another object holds that spec (`elsewhere`), `at` is the path
    where the parent names this object.
    """

    manifest: Manifest
    at: str
    elsewhere: bool = False

    def field(self, inner: str) -> str:
        """Return the parent's path for a field of the child. Propagated metadata have the same path in both."""
        if inner.partition(".")[0] != "spec":
            return inner
        return self.at if self.elsewhere else f"{self.at}{inner.removeprefix('spec')}"


def hands_down(manifest: Manifest) -> bool:
    """Whether annotations of the workload ask for a gang that is a child workload."""
    shape = shape_of(manifest)
    return shape is not None and bool(shape.heir[1])


def hands_labels_down(manifest: Manifest) -> bool:
    """Whether the operator also copies the workload's labels to the child, and a queue's name queues such a child."""
    shape = shape_of(manifest)
    if shape is None or not shape.heir_at or shape.hands_at:
        return False
    heir = WORKLOADS.get((group_of(shape.heir[0]), shape.heir[1]))
    return heir is not None and heir.queued


def labels_of_heir(manifest: Manifest, labels: Collection[str]) -> Mapping[str, str]:
    """Return the labels that a child workload gets from its parent; empty if the workload has no child.

    If the parent holds the child as a whole object, the result is only the labels that the parent propagates.

    :param labels: keys of labels that workloads of some kinds propagate.
    """
    shape = shape_of(manifest)
    if shape is None or not hands_down(manifest):
        return {}
    if shape.heir[1] == ANY:
        return _handed_labels(manifest, labels)
    own = texts_at(manifest, f"{shape.hands_at.rpartition('.')[0]}.labels" if shape.hands_at else _LABELS)
    return {**own, **_handed_labels(manifest, labels)}


def has_automatic_child(manifest: Manifest) -> bool:
    """Whether an automatic namespace makes the workload's child a gang."""
    shape = shape_of(manifest)
    child = WORKLOADS.get((group_of(shape.heir[0]), shape.heir[1])) if shape is not None else None
    return child is not None and child.automatic


def holds_its_heir(manifest: Manifest) -> bool:
    """Whether the workload holds its child as a whole object. Such a child can carry a placement request of its own."""
    shape = shape_of(manifest)
    return shape is not None and shape.heir[1] == ANY


def has_heirs_metadata(manifest: Manifest) -> bool:
    """Whether the workload has separate fields for the labels and annotations of its child."""
    shape = shape_of(manifest)
    return shape is not None and bool(shape.hands_at) and shape.heir[1] != ANY


def heir_of(manifest: Manifest, keys: Collection[str], find: Find, labels: Collection[str] = ()) -> Heir | None:
    """Return the child workload that will be the gang, with the propagated annotations and labels.

    Return None for a workload without a child, and if the object that describes the pods is unknown. Raises
    `MalformedError`.

    :param keys: annotation keys that are propagated.
    """
    shape, ref = shape_of(manifest), ref_of(manifest)
    if shape is None or not hands_down(manifest):
        return None
    if not shape.heir_at:
        return _described_elsewhere(manifest, keys, find, labels)
    if shape.heir[1] == ANY:
        way, made = _only_workload(manifest, shape.heir_at)
        made, at = {**made}, f"{field_of(way)}.spec"
        metadata = made.get("metadata")
    else:
        api_version, kind = shape.heir
        written = at_path(manifest, shape.heir_at)
        if not isinstance(written, Mapping):
            problem = f"is missing: it says what {kind} is made, which is the gang"
            remedy = f"write it, or annotate the {kind} that this {ref.kind} uses"
            raise MalformedError(Fault(ref, shape.heir_at, problem, remedy))
        made, at = {"apiVersion": api_version, "kind": kind, "spec": written}, shape.heir_at
        metadata = at_path(manifest, shape.hands_at.rpartition(".")[0]) if shape.hands_at else None
    said = metadata if isinstance(metadata, Mapping) else {}
    texts = said.get("annotations")
    annotations = {**(texts if isinstance(texts, Mapping) else {}), **_handed(manifest, keys)}
    if not shape.hands_at:  # its operator copies everything
        metadata_of(manifest)
        said = {"labels": dict(texts_at(manifest, _LABELS))}
        annotations = dict(texts_at(manifest, "metadata.annotations"))
    named = {} if shape.heir[1] == ANY else {"generateName": f"{ref.name.rstrip('-')}-"}
    own = {**said, **named, "namespace": ref.namespace, "annotations": annotations}
    if handed := _handed_labels(manifest, labels):
        texts = said.get("labels")
        own["labels"] = {**(texts if isinstance(texts, Mapping) else {}), **handed}
    heir = Heir({**made, "metadata": own}, at)
    further = heir_of(heir.manifest, keys, find, labels)
    return heir if further is None else Heir(further.manifest, heir.field(further.at))


def _described_elsewhere(manifest: Manifest, keys: Collection[str], find: Find, labels: Collection[str]) -> Heir | None:
    """Return the JobSet of a TrainJob, which has the TrainJob's name; None if the runtime is unknown."""
    runtime = find(runtime_of(manifest))
    if runtime is None:
        return None
    made = job_set_of(manifest, runtime)
    said = made["metadata"]
    annotations = {**said["annotations"], **_handed(manifest, keys)}
    own = {**said, "annotations": annotations, "labels": {**said["labels"], **_handed_labels(manifest, labels)}}
    return Heir({**made, "metadata": own}, NAMED_AT, elsewhere=True)


def described_in(manifest: Manifest) -> str:
    """Return kind and name of the object that describes a workload's pods; "" if the workload describes them itself.

    Raises `MalformedError`.
    """
    shape = shape_of(manifest)
    if shape is None or not hands_down(manifest) or shape.heir_at:
        return ""
    _, kind, _, name = runtime_of(manifest)
    return f"{kind} {name}"


def written_down(
    manifest: Manifest, old: Manifest | None, keys: Collection[str], labels: Collection[str] = ()
) -> Iterator[tuple[tuple[str, ...], str | None]]:
    """Yield the fields that admission writes so that the operator gives them to the child: way and value.

    The value None removes the field. Raises `MalformedError` if the user has written a different value there.

    :param old: the workload before the change. Values that were propagated from it count as Phalanx's, not the user's.
    :param keys: annotation keys that are propagated.
    """
    yield from _written(manifest, old, keys, _handed, "annotations")
    yield from _written(manifest, old, labels, _handed_labels, "labels")


def _written(
    manifest: Manifest,
    old: Manifest | None,
    keys: Collection[str],
    handed_by: Callable[[Manifest, Collection[str]], dict[str, str]],
    place: str,
) -> Iterator[tuple[tuple[str, ...], str | None]]:
    before = {} if old is None else handed_by(old, keys)
    handed = handed_by(manifest, keys)
    annotated = _way_down(manifest) if handed or before else ()
    if not annotated:
        return
    way = (*annotated[:-1], place)
    ref, there = ref_of(manifest), _at(manifest, way)
    for key in keys:
        stands = there.get(key)
        if key in handed and stands not in (None, handed[key], before.get(key)):
            at = f"{field_of(way)}[{key}]"
            problem = f'is "{stands}", but the {ref.kind} itself says "{handed[key]}"'
            raise MalformedError(Fault(ref, at, problem, "remove one of the two"))
        if key in handed:
            yield (*way, key), handed[key]
        elif stands is not None and stands == before.get(key):
            yield (*way, key), None


def not_written_down(manifest: Manifest, keys: Collection[str], labels: Collection[str] = ()) -> bool:
    """Whether the fields that the operator copies to the child lack the workload's request. Raises `MalformedError`."""
    down = written_down(manifest, None, keys, labels)
    return any(_at(manifest, way[:-1]).get(way[-1]) != value for way, value in down)


def _handed(manifest: Manifest, keys: Collection[str]) -> dict[str, str]:
    annotations = metadata_of(manifest).annotations
    return {key: annotations[key] for key in keys if key in annotations}


def _handed_labels(manifest: Manifest, labels: Collection[str]) -> dict[str, str]:
    shape = shape_of(manifest)
    if shape is None or not shape.hands_queue:
        return {}
    said = texts_at(manifest, _LABELS)
    return {key: said[key] for key in labels if key in said}


def _way_down(manifest: Manifest) -> tuple[str, ...]:
    """Return the way to the child's annotations; () if admission writes none for this kind. Raises `MalformedError`."""
    shape = shape_of(manifest)
    if shape is None or not shape.hands_at:
        return ()
    if shape.heir[1] == ANY:
        return (*_only_workload(manifest, shape.heir_at)[0], "metadata", "annotations")
    return tuple(shape.hands_at.split("."))


def _only_workload(manifest: Manifest, path: str) -> tuple[tuple[str, ...], Mapping[str, Any]]:
    """Return way and manifest of the only workload among the objects in this one.

    Raises `MalformedError` if there is none, or more than one.

    :param path: the path of a list, then `*`, then the path of the object in each entry.
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
    return gang_by_annotation(manifest) or hands_down(manifest)


def _at(manifest: Manifest, way: Sequence[str]) -> Mapping[str, Any]:
    """Return the mapping at the way, empty if absent. Raises `MalformedError` for a value of another type."""
    part: Any = manifest
    for depth, step in enumerate(way, start=1):
        part = part[int(step)] if isinstance(part, list) else part.get(step)
        if part is None:
            return {}
        if not isinstance(part, Mapping) and not (isinstance(part, list) and "".join(way[depth : depth + 1]).isdigit()):
            problem, remedy = "is not a mapping", "write a mapping"
            raise MalformedError(Fault(ref_of(manifest), field_of(way[:depth]), problem, remedy))
    return part if isinstance(part, Mapping) else {}
