"""What has changed in a cache since somebody last asked, by name: whoever keeps something up to date need not look at
everything.
"""

from dataclasses import dataclass

from kube.catalog import ObjectKey

MOST = 200_000
"""Names that are remembered; beyond that it is cheaper to look at everything."""


@dataclass(frozen=True, slots=True)
class Entries:
    """`pods`: by namespace and name; `objects`: by their keys. `everything`: too much to be told by name."""

    pods: frozenset[tuple[str, str]] = frozenset()
    objects: frozenset[ObjectKey] = frozenset()
    everything: bool = False


class Journal:
    """Is told of each change by the cache, within its lock; everything has changed when it begins."""

    def __init__(self) -> None:
        self._pods: set[tuple[str, str]] = set()
        self._objects: set[ObjectKey] = set()
        self._everything = True

    def pod(self, key: tuple[str, str]) -> None:
        """A pod is new, changed or gone."""
        if not self._everything:
            self._pods.add(key)
            self._bound()

    def object(self, key: ObjectKey) -> None:
        """An object is new, changed or gone."""
        if not self._everything:
            self._objects.add(key)
            self._bound()

    def lose(self) -> None:
        """Tell at the next question that everything has changed."""
        self._pods, self._objects, self._everything = set(), set(), True

    def take(self) -> Entries:
        """What has changed since this was last asked. To be called while the cache is still (`ClusterCache.still`)."""
        taken = Entries(frozenset(self._pods), frozenset(self._objects), self._everything)
        self._pods, self._objects, self._everything = set(), set(), False
        return taken

    def _bound(self) -> None:
        if len(self._pods) + len(self._objects) > MOST:
            self.lose()
