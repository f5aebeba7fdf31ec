"""Journals: which objects of the cache have changed since the last query of one reader.

With a journal, a reader can update its own state without reading all objects.
"""

from dataclasses import dataclass

from kube.catalog import ObjectKey

MOST = 200_000
"""The most names that a journal records. Beyond that it is cheaper for the reader to read everything."""


@dataclass(frozen=True, slots=True)
class Entries:
    """The changes since the last `Journal.take`.

    `pods`: the changed pods, by namespace and name. `objects`: the keys of the changed workloads, groups and so on.
    `everything`: any object may have changed, because there were too many changes to record or the journal is new.
    """

    pods: frozenset[tuple[str, str]] = frozenset()
    objects: frozenset[ObjectKey] = frozenset()
    everything: bool = False


@dataclass(frozen=True, slots=True)
class News:
    """The changes since the last `Journal.news` or `Journal.take`, with the fields of `Entries`.

    `unnamed`: whether other objects have changed, such as a node or a disruption budget.
    """

    pods: tuple[tuple[str, str], ...] = ()
    objects: tuple[ObjectKey, ...] = ()
    everything: bool = False
    unnamed: bool = False


class Journal:
    """Records the names of changed objects for one reader. The cache calls it under its lock.

    A new journal reports everything as changed.
    """

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
        """Record that an object has changed which readers do not look up by name.

        Examples are a node, a disruption budget, a namespace, or the reason why a resource cannot be read.
        """
        self._unnamed = True

    def lose(self) -> None:
        """Drop all recorded names, and report everything as changed at the next query."""
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
