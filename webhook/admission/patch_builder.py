"""JSON patches (RFC 6902) that cannot fail: parents are made first, and a patch is tried before it is sent.

The API server rejects an object whose patch does not apply, even where the failurePolicy is Ignore.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import jsonpatch

from webhook.errors import Unavailable

Operation = Mapping[str, Any]


class PatchBuilder:
    """Collects operations on one object; each sees the object as the ones before it left it.

    A value that is already there makes no operation, so what was patched once is not patched again.
    """

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        self._original = manifest
        self._object = copy.deepcopy(dict(manifest))
        self._operations: list[Operation] = []

    def set(self, path: Sequence[str], value: Any) -> None:
        """Put `value` at `path`, making the maps above it where they are absent.

        :param path: keys from the root; of a list that is there, a position in decimal.
        """
        parent = self._parent(path)
        if parent.get(path[-1]) == value:
            return
        parent[path[-1]] = value
        self._add(path, value)

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
            result = jsonpatch.JsonPatch(operations).apply(self._original)
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
                raise Unavailable(f"/{'/'.join(path[:depth])} is not a map")
        if not isinstance(node, dict):
            raise Unavailable(f"/{'/'.join(path[:-1])} is not a map")
        return node

    def _add(self, path: Sequence[str], value: Any) -> None:
        pointer = "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in path)
        self._operations.append({"op": "add", "path": pointer, "value": copy.deepcopy(value)})
