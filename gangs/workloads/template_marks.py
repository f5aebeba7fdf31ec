"""The labels and annotations that admission adds to the pod templates of a workload that is a gang: its *marks*.

By the marks, above all the label `phalanx.dev/workload`, Phalanx finds the gang of a pod. Admission writes them
(`marks`). A dry run reads a workload as if admission had written them (`with_labels`). If the WorkloadKind of a
workload's kind is deleted, the marks stay at updates (`kept`), because its pods are still found by them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gangs.manifests import key_of
from gangs.model import Manifest
from gangs.workloads.kind_table import KindRow, group_and_kind_in, names_a_group, row_of
from gangs.workloads.pod_templates import Template, templates
from kube import keys

Marks = Mapping[str, Mapping[str, str]]
"""By place ("labels" or "annotations"): the keys and values that admission adds to a pod template."""

_MOST_FIELDS = 100_000
"""The most fields of an object of an unknown kind that are searched for marks. 100,000 fields take 0.1 s."""


def marks(row: KindRow | None, template: Template, labels: Mapping[str, str]) -> Marks:
    """Return all labels and annotations that admission adds to a pod template together with the label of its gang.

    For a kind with `KindRow.fields`, these include the name of the pod set, and the keys of the labels with the
    workload's name and part. Phalanx can then find a pod's gang without the description of the workload's kind.

    :param labels: the labels of the gang, such as `phalanx.dev/workload`.
    """
    if row is None or not row.fields or not names_a_group(labels.get(keys.WORKLOAD, "")):
        return {"labels": labels, "annotations": {}}
    by = {keys.NAMED_BY: row.named_by, keys.PART_BY: row.part_by}
    own = {**labels, keys.POD_SET: template.role}
    return {"labels": own, "annotations": {key: value for key, value in by.items() if value}}


@dataclass(slots=True)
class _Node:
    """A node in the tree of paths to the pod templates that get marks (labels and annotations). `below`: by the next
    key of a path, the node below.
    """

    marks: Marks = field(default_factory=dict)
    below: "dict[str, _Node]" = field(default_factory=dict)


def with_labels(manifest: Manifest, labels: Mapping[str, str]) -> Manifest:
    """Return the workload as if admission had written these labels, and the labels and annotations that `marks` adds to
    them, on every pod template.
    """
    row, root = row_of(manifest), _Node()
    for each in templates(manifest):
        node = root
        for step in (*each.way, *each.metadata):
            node = node.below.setdefault(step, _Node())
        node.marks = marks(row, each, labels)
    marked: Manifest = _marked(manifest, root)
    return marked


def _marked(part: Any, node: _Node) -> Any:
    """Return a copy of a part of the object with the marks (labels and annotations) in the tree below `node`.

    Parts without marks are shared with the original. Each other list and mapping is copied only once.
    """
    found: Any = part.copy()
    for step, below in node.below.items():
        at: Any = int(step) if isinstance(found, list) else step
        there = found[at] if isinstance(found, list) or at in found else {}
        found[at] = _marked(there if isinstance(there, dict | list) else {}, below)
    for place, texts in node.marks.items():
        if texts:
            found[place] = {**(found.get(place) or {}), **texts}
    return found


def kept(old: Manifest, new: Manifest) -> Iterator[tuple[tuple[str, ...], Marks]]:
    """Yield the marks (labels and annotations of Phalanx) in the old version of an object, each with the path in the
    new version where they must stay.

    The path is that of the pod template's metadata, as a tuple of keys. The object is of a kind that a WorkloadKind
    described. Entries of lists are matched by name if they have one. Marks on parts that the new version lacks are
    dropped.
    """
    group, kind, _, _ = key_of(old)
    for way, metadata, _ in _pairs(old, new):
        if group_and_kind_in(_texts(metadata, "labels").get(keys.WORKLOAD, "")) == (group, kind):
            own = {
                "labels": (keys.WORKLOAD, keys.POD_SET),
                "annotations": (keys.NAMED_BY, keys.PART_BY),
            }
            yield (
                (*way, "metadata"),
                {
                    place: {key: texts[key] for key in of_place if key in (texts := _texts(metadata, place))}
                    for place, of_place in own.items()
                },
            )


def has_marks(manifest: Manifest) -> bool:
    """Whether the object has marks (labels and annotations of Phalanx) from the time when a WorkloadKind described its
    kind.
    """
    return any(True for _ in kept(manifest, manifest))


def _pairs(old: Manifest, new: Manifest) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yield each part of an object, except the object itself, that has metadata and exists in both versions.

    It is yielded as (its path as a tuple of keys, its old metadata, the part in the new version).
    """
    waiting: list[tuple[tuple[str, ...], Any, Any]] = [((), old, new)]
    for _ in range(_MOST_FIELDS):
        if not waiting:
            return
        way, before, after = waiting.pop()
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            if way and "metadata" in before:
                yield way, before["metadata"], after
            waiting += [
                ((*way, key), part, after[key]) for key, part in before.items() if _holds(part) and key in after
            ]
        elif isinstance(before, list) and isinstance(after, list):
            places = {_name(part, at): at for at, part in reversed(list(enumerate(after)))}
            found = ((places.get(_name(part, at)), part) for at, part in enumerate(before) if _holds(part))
            waiting += [((*way, str(at)), part, after[at]) for at, part in found if at is not None]


def _holds(part: Any) -> bool:
    return isinstance(part, Mapping | list)


def _name(part: Any, at: int) -> str | int:
    """Return the name of a list entry, by which it is found in another version of the list; else its position `at`."""
    names = (part.get(key) for key in ("name", "groupName")) if isinstance(part, Mapping) else ()
    return next((each for each in names if isinstance(each, str) and each), at)


def _texts(metadata: Any, place: str) -> dict[str, str]:
    written = metadata.get(place) if isinstance(metadata, Mapping) else None
    parts = written.items() if isinstance(written, Mapping) else ()
    return {key: value for key, value in parts if isinstance(value, str)}
