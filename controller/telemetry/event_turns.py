"""A bounded queue and a bounded cache for events, in which a namespace with many events cannot displace the others."""

import queue
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, MutableMapping
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class FairQueue(queue.Queue[tuple[str, V] | None]):
    """A queue of (namespace, item) pairs that serves the namespaces in turn. Items of one namespace are first in, first
    out.

    If too many items wait, the namespace with the most items loses its newest one, so `put` never blocks. After
    `put(None)`, which marks the end, `get` returns None whenever no item waits.
    """

    def __init__(self, most: int, lost: Callable[[V], None]) -> None:
        """Create a queue of at most `most` items.

        :param lost: called with each item that is dropped, in the thread that calls `put`.
        """
        super().__init__()
        self._most = most
        self._lost = lost

    def _init(self, maxsize: int) -> None:  # noqa: ARG002 - the library's own hooks, as LifoQueue fills them
        self._lanes: OrderedDict[str, deque[tuple[str, V]]] = OrderedDict()
        self._waiting = 0
        self._ended = False

    def _qsize(self) -> int:
        return self._waiting + self._ended

    def _put(self, item: tuple[str, V] | None) -> None:
        if item is None:
            self._ended = True
            return
        namespace = item[0]
        lane = self._lanes.setdefault(namespace, deque())
        lane.append(item)
        self._waiting += 1
        if self._waiting > self._most:
            self._lose_one(longest(self._lanes, namespace))

    def _lose_one(self, namespace: str) -> None:
        _, last = self._lanes[namespace].pop()
        self._waiting -= 1
        if not self._lanes[namespace]:
            del self._lanes[namespace]
        self._lost(last)

    def _get(self) -> tuple[str, V] | None:
        if not self._waiting:
            return None
        namespace, lane = self._lanes.popitem(last=False)
        item = lane.popleft()
        self._waiting -= 1
        if lane:
            self._lanes[namespace] = lane
        return item


class FairMemory(MutableMapping[tuple[str, K], V]):
    """A bounded cache by namespace and key. If it is full, the namespace with the most entries loses its oldest one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._of: dict[str, dict[K, V]] = {}

    def __getitem__(self, key: tuple[str, K]) -> V:
        return self._of[key[0]][key[1]]

    def __setitem__(self, key: tuple[str, K], value: V) -> None:
        namespace, inner = key
        self._size += key not in self
        self._of.setdefault(namespace, {})[inner] = value
        if self._size > self._most:
            most = longest(self._of, namespace)
            del self[most, next(iter(self._of[most]))]

    def __delitem__(self, key: tuple[str, K]) -> None:
        namespace, inner = key
        del self._of[namespace][inner]
        self._size -= 1
        if not self._of[namespace]:
            del self._of[namespace]

    def __iter__(self) -> Iterator[tuple[str, K]]:
        return iter([(namespace, key) for namespace, known in self._of.items() for key in known])

    def __len__(self) -> int:
        return self._size


def longest(lanes: MutableMapping[str, deque[V]] | MutableMapping[str, dict[K, V]], own: str) -> str:
    """Return the namespace with the most items. Of several with equally many, `own` is preferred."""
    return max(lanes, key=lambda each: (len(lanes[each]), each == own))
