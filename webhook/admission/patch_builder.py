"""JSON patches (RFC 6902) that cannot fail: parents are made first, and a patch is tried before it is sent.

The API server rejects an object whose patch does not apply, even where the failurePolicy is Ignore.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import jsonpatch
import msgspec

from gangs.manifests import MalformedError, ref_of
from gangs.model import Fault
from webhook.errors import Unavailable

Operation = Mapping[str, Any]


class PatchBuilder:
    """Collects operations on one object; each sees the object as the ones before it left it.

    A value that is already there makes no operation, so what was patched once is not patched again.
    """

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        self._original = manifest
        self._object: dict[str, Any] = _copied(manifest)
        self._operations: list[Operation] = []

    def set(self, path: Sequence[str], value: Any) -> None:
        """Put `value` at `path`, making the maps above it where they are absent. Raises `MalformedError` where
        something else is there, as every change does.

        :param path: keys from the root; of a list that is there, a position in decimal.
        """
        parent = self._parent(path)
        if parent.get(path[-1]) == value:
            return
        parent[path[-1]] = value
        self._add(path, value)

    def remove(self, path: Sequence[str]) -> None:
        """Take out what is at `path`, a key of a map that is there."""
        del self._parent(path)[path[-1]]
        self._operations.append({"op": "remove", "path": _pointer(path)})

    def append(self, path: Sequence[str], value: Any) -> None:
        """Append `value` to the list at `path`, making it where it is absent, unless the list holds it."""
        parent = self._parent(path)
        existing = parent.get(path[-1])
        if not existing:
            parent[path[-1]] = [value]
            self._add(path, [value])
        elif value not in existing:
            existing.append(value)
            self._add([*path, "-"], value)

    def build(self) -> tuple[Operation, ...]:
        """The operations, tried on the object as it came. Raises Unavailable where they do not give what was meant."""
        operations = tuple(self._operations)
        try:
            result = jsonpatch.JsonPatch(operations).apply(_copied(self._original), in_place=True)
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError) as error:
            raise Unavailable(f"the change to this object would not apply: {error}") from error
        if result != self._object:
            raise Unavailable("the change to this object would not give what was meant")
        return operations

    def _parent(self, path: Sequence[str]) -> dict[str, Any]:
        node: Any = self._object
        for depth, key in enumerate(path[:-1], start=1):
            if isinstance(node, list):
                node = node[int(key)]
            else:
                if node.get(key) is None:
                    node[key] = {}
                    self._add(path[:depth], {})
                node = node[key]
            if not isinstance(node, dict | list):
                raise self._no_mapping(path[:depth])
        if not isinstance(node, dict):
            raise self._no_mapping(path[:-1])
        return node

    def _no_mapping(self, path: Sequence[str]) -> MalformedError:
        return MalformedError(Fault(ref_of(self._original), ".".join(path), "is not a mapping", "write a mapping"))

    def _add(self, path: Sequence[str], value: Any) -> None:
        self._operations.append({"op": "add", "path": _pointer(path), "value": copy.deepcopy(value)})


def _copied(manifest: Mapping[str, Any]) -> Any:
    """A deep copy of the manifest. Encoding and decoding it takes a tenth of the time of `copy.deepcopy`."""
    return msgspec.json.decode(msgspec.json.encode(manifest))


def _pointer(path: Sequence[str]) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in path)
