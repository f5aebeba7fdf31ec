"""The kinds of patch that the API server takes."""

from collections.abc import Mapping
from typing import Any

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

_KEYS = {"conditions": "type", "schedulingGates": "name", "containers": "name"}
"""Lists of a pod that a strategic merge patch merges item by item, with their key (patchMergeKey of core/v1)."""


def patched(old: Any, patch: Any, content_type: str) -> Any:
    """Return `old` after the patch. Raises `NotImplementedError` for an unsupported patch type or list."""
    if content_type == MERGE:
        return merged(old, patch)
    if content_type == STRATEGIC:
        return strategic(old, patch)
    raise NotImplementedError(content_type)


def merged(old: Any, patch: Any) -> Any:
    """RFC 7386: objects are merged, null deletes, anything else replaces."""
    if not isinstance(patch, Mapping):
        return patch
    kept = dict(old) if isinstance(old, Mapping) else {}
    for key, each in patch.items():
        if each is None:
            kept.pop(key, None)
        else:
            kept[key] = merged(kept.get(key), each)
    return kept


def strategic(old: Any, patch: Any, name: str = "") -> Any:
    """Return `old` after a strategic merge patch: as RFC 7386, but a list in `_KEYS` is merged by its key.

    Raises `NotImplementedError` for other lists of objects.
    """
    if isinstance(patch, list) and name in _KEYS:
        return _merged_list(old or [], patch, _KEYS[name])
    if isinstance(patch, list) and patch and isinstance(patch[0], Mapping):
        raise NotImplementedError(f"a strategic merge patch of {name}")
    if not isinstance(patch, Mapping):
        return patch
    kept = dict(old) if isinstance(old, Mapping) else {}
    for key, each in patch.items():
        if key.startswith("$"):
            raise NotImplementedError(key)
        if each is None:
            kept.pop(key, None)
        else:
            kept[key] = strategic(kept.get(key), each, key)
    return kept


def _merged_list(old: list[Any], patch: list[Any], key: str) -> list[Any]:
    """Merge lists: existing items keep their order, new ones precede them (apimachinery's `normalizeElementOrder`)."""
    new = {each[key]: each for each in patch}
    kept = [strategic(each, new.pop(each[key], {})) for each in old]
    return [*new.values(), *kept]
