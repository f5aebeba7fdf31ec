"""Journals: the names of a cache's objects that have changed since the last query. With a journal, a reader can update
its state without reading all objects.
"""

from dataclasses import dataclass

from kube.catalog import ObjectKey

MOST = 200_000
"""Most names that a journal records. Beyond that it is cheaper to read everything."""


@dataclass(frozen=True, slots=True)
class Entries:
    """The changed pods (namespace, name) and objects (keys). `everything`: any object may have changed, because there
    were too many changes to record names.
    """

    pods: frozenset[tuple[str, str]] = frozenset()
    objects: frozenset[ObjectKey] = frozenset()
    everything: bool = False


@dataclass(frozen=True, slots=True)
class News:
    """Changes since the last query, by name as in `Entries`. `unnamed`: other objects, such as a node, have changed."""

    pods: tuple[tuple[str, str], ...] = ()
    objects: tuple[ObjectKey, ...] = ()
    everything: bool = False
    unnamed: bool = False


class Journal:
    """Records the changes of a cache, which calls it within its lock. A new journal reports everything as changed."""

    def __init__(self) -> None:
        self._pods: set[tuple[str, str]] = set()
        self._objects: set[ObjectKey] = set()
        self._everything = True
        self._fresh_pods: dict[tuple[str, str], None] = {}
        self._fresh_objects: dict[ObjectKey, None] = {}
        self._unnamed = False

    def pod(self, key: tuple[str, str]) -> None:
        """Record that a pod was added, changed or removed."""
        if not self._everything:
            self._pods.add(key)
            self._fresh_pods[key] = None
            self._bound()

    def object(self, key: ObjectKey) -> None:
        """Record that an object was added, changed or removed."""
        if not self._everything:
            self._objects.add(key)
            self._fresh_objects[key] = None
            self._bound()

    def other(self) -> None:
        """Record a change of something that readers always read as a whole.

        Examples are a node, a budget, a namespace, or the reason why a resource is not read.
        """
        self._unnamed = True

    def lose(self) -> None:
        """Report everything as changed at the next query."""
        self._pods, self._objects, self._everything = set(), set(), True
        self._fresh_pods, self._fresh_objects = {}, {}

    def news(self) -> News:
        """Return the changes since the last `news` or `take`. The next `take` reports them again.

        The caller must hold the cache still, as for `take`.
        """
        news = News(tuple(self._fresh_pods), tuple(self._fresh_objects), self._everything, self._unnamed)
        self._fresh_pods, self._fresh_objects, self._unnamed = {}, {}, False
        return news

    def take(self) -> Entries:
        """Return the changes since the last `take`. The caller must hold the cache still (`ClusterCache.still`)."""
        taken = Entries(frozenset(self._pods), frozenset(self._objects), self._everything)
        self._pods, self._objects, self._everything = set(), set(), False
        self._fresh_pods, self._fresh_objects, self._unnamed = {}, {}, False
        return taken

    def _bound(self) -> None:
        if len(self._pods) + len(self._objects) > MOST:
            self.lose()
