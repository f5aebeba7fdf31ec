"""The reduction of an object of a user-defined kind to the fields that Phalanx reads.

Otherwise a user who may write such objects could fill the controller's memory with other fields.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Union

import msgspec

from gangs.manifests import MalformedError, decode, ref_of
from gangs.model import Manifest
from gangs.workloads.kind_table import ANY, ROW, KindRow
from gangs.workloads.suspension import USUAL
from kube.objects import Pod

_CONDITIONS = "status.conditions"
_ALWAYS = USUAL
"""Paths that are kept for every kind."""
_NAMES = ("name", "groupName")
_METADATA = ("labels", "annotations", "ownerReferences")
_LONGEST = 1_024
"""The most characters of an annotation's value. No value that Phalanx reads is longer, so longer ones are dropped."""
_HERE, _TEMPLATE = "", "pod template"
"""Keys in a `_Tree` that mark the end of a path, and the end of a pod template's path. No field has such a name."""

_Tree = dict[str, Union["_Tree", None]]
"""Paths of fields as a tree: by the next step of a path, the tree of the further steps.

Example: the path `spec.replicas` is {"spec": {"replicas": {_HERE: None}}}.
"""


def kept(manifest: Manifest, row: KindRow) -> Manifest:
    """Return the object reduced to the fields that Phalanx reads, with the description of its kind (`with_row`)."""
    found = _cut(manifest, [_tree_of(row)], manifest)
    status = manifest.get("status")
    if isinstance(status, Mapping) and isinstance(conditions := status.get("conditions"), list):
        own = [
            {key: each[key] for key in ("type", "status") if key in each}
            for each in conditions
            if isinstance(each, Mapping)
        ]
        found = {**found, "status": {**found.get("status", {}), "conditions": own}}
    typed = {key: manifest[key] for key in ("apiVersion", "kind") if key in manifest}
    return {**found, **typed, "metadata": _metadata(manifest.get("metadata")), ROW: row}


def _tree_of(row: KindRow) -> _Tree:
    """Return the paths of the fields that Phalanx reads of this kind, as a tree."""
    root: _Tree = {}
    for path, end in _paths(row):
        node = root
        for step in path.split("."):
            below = node.setdefault(step, {})
            node = below if below is not None else {}
        node[end] = None
    return root


def _paths(row: KindRow) -> Iterator[tuple[str, str]]:
    for each in row.fields:
        yield each.template, _TEMPLATE
        yield from ((path, _HERE) for path in (each.replicas, each.least, each.later_if) if path)
    others = (row.minimum, row.parts, row.suspended_at, *(path for path, _ in row.ended_at), *_ALWAYS)
    yield from ((path, _HERE) for path in others if path)


def _cut(part: Any, trees: Sequence[_Tree], manifest: Manifest) -> Any:
    """Return a part of the object with only the fields on the paths in `trees`.

    A value of an unexpected type is kept, so that the later reader of the field reports it.
    """
    if isinstance(part, Mapping):
        if any(_TEMPLATE in each for each in trees):
            return _template(part, manifest)
        keys = part if any(ANY in each for each in trees) else {key for each in trees for key in each}
        below = {key: _below(trees, str(key)) for key in keys if key in part}
        return {key: _cut(part[key], found, manifest) for key, found in below.items() if found}
    if isinstance(part, list):
        found = _below(trees, ANY)
        return [_entry(each, found, manifest) for each in part] if found else []
    return part


def _below(trees: Sequence[_Tree], step: str) -> list[_Tree]:
    steps = (step,) if step == ANY else (step, ANY)
    return [found for tree in trees for each in steps if (found := tree.get(each)) is not None]


def _entry(part: Any, trees: Sequence[_Tree], manifest: Manifest) -> Any:
    """Return an entry of a list, reduced as `_cut` does, with the fields `name` and `groupName`."""
    found = _cut(part, trees, manifest)
    named = {key: part[key] for key in _NAMES if isinstance(part.get(key), str)} if isinstance(part, Mapping) else {}
    return {**found, **named} if named else found


def _template(part: Mapping[str, Any], manifest: Manifest) -> dict[str, Any]:
    """Return a pod template with only the fields that decide a pod's placement."""
    found: dict[str, Any] = {"metadata": _metadata(part.get("metadata"))} if "metadata" in part else {}
    if "spec" in part:
        try:
            pod = decode({"spec": part["spec"]}, Pod, ref_of(manifest), "spec")
            found["spec"] = msgspec.to_builtins(pod.spec)
        except MalformedError:  # reported later, when the template is read
            found["spec"] = part["spec"]
    return found


def _metadata(written: Any) -> Any:
    if not isinstance(written, Mapping):
        return written
    found = {key: value for key, value in written.items() if isinstance(value, str) or key in _METADATA}
    if isinstance(texts := found.get("annotations"), Mapping):
        found["annotations"] = {key: each for key, each in texts.items() if len(str(each)) <= _LONGEST}
    return found
