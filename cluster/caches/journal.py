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


@dataclass(frozen=True, slots=True)
class News:
    """What has come in since that was asked, by name as in `Entries`. `unnamed`: something besides: a node, say."""

    pods: tuple[tuple[str, str], ...] = ()
    objects: tuple[ObjectKey, ...] = ()
    everything: bool = False
    unnamed: bool = False


class Journal:
    """Is told of each change by the cache, within its lock; everything has changed when it begins."""

    def __init__(self) -> None:
        self._pods: set[tuple[str, str]] = set()
        self._objects: set[ObjectKey] = set()
        self._everything = True
        self._fresh_pods: dict[tuple[str, str], None] = {}
        self._fresh_objects: dict[ObjectKey, None] = {}
        self._unnamed = False

    def pod(self, key: tuple[str, str]) -> None:
        """A pod is new, changed or gone."""
        if not self._everything:
            self._pods.add(key)
            self._fresh_pods[key] = None
            self._bound()

    def object(self, key: ObjectKey) -> None:
        """An object is new, changed or gone."""
        if not self._everything:
            self._objects.add(key)
            self._fresh_objects[key] = None
            self._bound()

    def other(self) -> None:
        """Something is new, changed or gone that is looked at as a whole each time: a node, a budget, a namespace, why
        a resource is not read.
        """
        self._unnamed = True

    def lose(self) -> None:
        """Tell at the next question that everything has changed."""
        self._pods, self._objects, self._everything = set(), set(), True
        self._fresh_pods, self._fresh_objects = {}, {}

    def news(self) -> News:
        """What has changed since the last `news` or `take`; `take` tells of it all the same. To be called as that."""
        news = News(tuple(self._fresh_pods), tuple(self._fresh_objects), self._everything, self._unnamed)
        self._fresh_pods, self._fresh_objects, self._unnamed = {}, {}, False
        return news

    def take(self) -> Entries:
        """What has changed since this was last asked. To be called while the cache is still (`ClusterCache.still`)."""
        taken = Entries(frozenset(self._pods), frozenset(self._objects), self._everything)
        self._pods, self._objects, self._everything = set(), set(), False
        self._fresh_pods, self._fresh_objects, self._unnamed = {}, {}, False
        return taken

    def _bound(self) -> None:
        if len(self._pods) + len(self._objects) > MOST:
            self.lose()
