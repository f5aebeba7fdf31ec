"""A `GroupKind` for tests that watch a kind of their own."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cluster.caches.further_kinds import GroupKind
from cluster.caches.manifest_sinks import AsRead, Keeps


@dataclass(frozen=True, slots=True)
class WatchedKind:
    """A `GroupKind` for callers that have none of their own."""

    group: str
    versions: tuple[str, ...]
    kind: str
    plural: str
    only: tuple[str, str] | None = None
    """(namespace, name) of the one object that is watched; None: all."""
    keeps: Keeps | None = None
    """Which of them are kept; None: all."""
    as_read: AsRead | None = None
    """Returns what the cache keeps of an object; None: the cache keeps the object itself."""
    user_defined: "Callable[[Sequence[dict[str, Any]]], Iterable[GroupKind]] | None" = None
    """Further kinds to be watched that its objects name; None: none."""
