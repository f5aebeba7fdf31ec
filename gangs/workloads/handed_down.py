"""Workloads of which another object is made that is the gang: a CronJob's Job, a RayJob's cluster, a TrainJob's JobSet.

What such a workload says of its gang reaches that object in one of two ways. Its operator copies the annotations of the
workload itself (KubeRay does), or admission writes them down where the operator takes that object's annotations from,
and for some kinds a queue's name among its labels.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gangs.manifests import MalformedError, group_of, metadata_of, ref_of
from gangs.model import Fault, Manifest
from gangs.workloads.jobs import is_job
from gangs.workloads.kind_table import ANY, WORKLOADS, shape_of
from gangs.workloads.pod_counts import field_of
from gangs.workloads.pod_templates import at_path, gang_by_annotation, texts_at
from gangs.workloads.train_jobs import NAMED_AT, job_set_of, runtime_of
from kube.catalog import ObjectKey

Find = Callable[[ObjectKey], Manifest | None]
"""Another object that is known, by its key."""

_LABELS = "metadata.labels"
_ONE = "write one workload in it, or make a Gang object and label the pod templates phalanx.dev/gang: <its name>"


@dataclass(frozen=True, slots=True)
class Heir:
    """The object that will be the gang, as its operator makes it. `at`: where its spec stands in the workload, or where
    the object is named in which it does (`elsewhere`).
    """

    manifest: Manifest
    at: str
    elsewhere: bool = False

    def field(self, inner: str) -> str:
        """Where the workload has a field of this object. What is handed down stands in the same place in both."""
        if inner.partition(".")[0] != "spec":
            return inner
        return self.at if self.elsewhere else f"{self.at}{inner.removeprefix('spec')}"


def hands_down(manifest: Manifest) -> bool:
    """Whether another object is the gang that annotations of the workload ask for."""
    shape = shape_of(manifest)
    return shape is not None and bool(shape.heir[1])


def hands_labels_down(manifest: Manifest) -> bool:
    """Whether the operator copies the labels of the workload, too, to an object that a queue's name on it queues."""
    shape = shape_of(manifest)
    if shape is None or not shape.heir_at or shape.hands_at:
        return False
    heir = WORKLOADS.get((group_of(shape.heir[0]), shape.heir[1]))
    return heir is not None and heir.queued


def labels_of_heir(manifest: Manifest, labels: Collection[str]) -> Mapping[str, str]:
    """The labels that the object made of a workload gets from it; none for any other workload. Of one that holds that
    object as a whole, those that it hands down.

    :param labels: those that workloads of some kinds hand down.
    """
    shape = shape_of(manifest)
    if shape is None or not hands_down(manifest):
        return {}
    if shape.heir[1] == ANY:
        return _handed_labels(manifest, labels)
    own = texts_at(manifest, f"{shape.hands_at.rpartition('.')[0]}.labels" if shape.hands_at else _LABELS)
    return {**own, **_handed_labels(manifest, labels)}


def holds_its_heir(manifest: Manifest) -> bool:
    """Whether the workload holds the object as a whole that will be the gang, which may ask for itself."""
    shape = shape_of(manifest)
    return shape is not None and shape.heir[1] == ANY


def has_heirs_metadata(manifest: Manifest) -> bool:
    """Whether the workload has a place of its own for labels and annotations of the object that will be the gang."""
    shape = shape_of(manifest)
    return shape is not None and bool(shape.hands_at) and shape.heir[1] != ANY


def heir_of(manifest: Manifest, keys: Collection[str], find: Find, labels: Collection[str] = ()) -> Heir | None:
    """What will be the gang, with what is handed down by these keys; None for other workloads, and for one whose pods
    are described in an object that is not known. Raises `MalformedError`.

    :param keys: annotations.
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
    """What is made of a TrainJob; it has the TrainJob's name."""
    runtime = find(runtime_of(manifest))
    if runtime is None:
        return None
    made = job_set_of(manifest, runtime)
    said = made["metadata"]
    annotations = {**said["annotations"], **_handed(manifest, keys)}
    own = {**said, "annotations": annotations, "labels": {**said["labels"], **_handed_labels(manifest, labels)}}
    return Heir({**made, "metadata": own}, NAMED_AT, elsewhere=True)


def described_in(manifest: Manifest) -> str:
    """The object that says what a workload's pods are, as a sentence names it; "" where the workload does itself.

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
    """What admission writes where the operator takes the heir's metadata from: ways and values, None takes one out.

    Raises `MalformedError` where something else is written there already.

    :param old: the workload before it was changed: what was handed down from that is its own no longer.
    :param keys: annotations.
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
    """Whether what it says has not been written down where its operator looks. Raises `MalformedError`."""
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
    """Where the annotations of the heir stand; () where nothing is written down. Raises `MalformedError`."""
    shape = shape_of(manifest)
    if shape is None or not shape.hands_at:
        return ()
    if shape.heir[1] == ANY:
        return (*_only_workload(manifest, shape.heir_at)[0], "metadata", "annotations")
    return tuple(shape.hands_at.split("."))


def _only_workload(manifest: Manifest, path: str) -> tuple[tuple[str, ...], Mapping[str, Any]]:
    """The one workload among the objects that stand in the workload. Raises `MalformedError` where there is not one.

    :param path: of a list, `*`, and where in its entries the objects stand.
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
    return is_job(manifest) or gang_by_annotation(manifest) or hands_down(manifest)


def _at(manifest: Manifest, way: Sequence[str]) -> Mapping[str, Any]:
    """The mapping there, empty where it is not written. Raises `MalformedError` where something else is."""
    part: Any = manifest
    for depth, step in enumerate(way, start=1):
        part = part[int(step)] if isinstance(part, list) else part.get(step)
        if part is None:
            return {}
        if not isinstance(part, Mapping) and not (isinstance(part, list) and "".join(way[depth : depth + 1]).isdigit()):
            problem, remedy = "is not a mapping", "write a mapping"
            raise MalformedError(Fault(ref_of(manifest), field_of(way[:depth]), problem, remedy))
    return part if isinstance(part, Mapping) else {}
