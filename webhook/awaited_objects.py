"""Waits for a moment until objects that a gang needs reach the caches.

One `kubectl apply` creates a PodGroup and its pods a few milliseconds apart. When the first pod is reviewed, the caches
may not have the PodGroup yet. Without the wait, the pod's author would get a warning that the PodGroup is missing.
"""

import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from gangs.dialects.table import all_kinds
from gangs.resource_kinds import ResourceKind
from kube.catalog import Catalog, ObjectKey
from timing.clock import SYSTEM_CLOCK, Clock

SECONDS = 0.3
"""How long the review of a pod waits until an object reaches the caches."""
PAUSE_SECONDS = 10.0
"""After a wait in vain, no review waits for this time: of many pods that arrive before their group, only one waits."""
AT_ONCE = 2
"""The most reviews that wait at a time. Other reviews are answered at once."""
_LOOK_SECONDS = 0.005

_NAMED: defaultdict[str, list[ResourceKind]] = defaultdict(list)
"""Resource kinds by name, in all API groups. A kind whose objects are topologies also has the topology's name."""
for _each in all_kinds():
    for _name in {_each.kind, _each.describes} - {""}:
        _NAMED[_name].append(_each)
_AWAITED = re.compile(r'(?P<kind>\w+) (?:(?:(?P<namespace>[^\s/]+)/)?(?P<name>[^\s/]+)|with a level ".*")')


@dataclass(frozen=True, slots=True)
class AwaitedObject:
    """An object that a gang waits for, read from a text of `gangs.model.Gang.waiting_for`.

    `namespace`: "" for a cluster-scoped kind. `name`: "" if any object of the kind will do.
    """

    kind: ResourceKind
    namespace: str
    name: str

    @property
    def key(self) -> ObjectKey:
        """The key of the object in the caches: group, kind, namespace, name (`kube.catalog.Catalog`)."""
        return self.kind.group, self.kind.kind, self.namespace, self.name


def objects_in(text: str) -> Iterator[AwaitedObject]:
    """Yield the objects that a text of `gangs.model.Gang.waiting_for` may name, such as `PodGroup team-a/train`.

    Several API groups may have a kind of that name, so there may be several; empty if the text names no object.
    A text without an object's name yields topologies only, because there are few of them.
    """
    if (named := _AWAITED.fullmatch(text)) is not None:
        for kind in _NAMED.get(named["kind"], ()):
            if kind.namespaced == (named["namespace"] is not None) if named["name"] else kind.describes:
                yield AwaitedObject(kind, named["namespace"] or "", named["name"] or "")


class Patience:
    """Waits until the objects that a gang needs are in the watch caches. It sends no request, and several threads may
    use one object.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._turns = threading.BoundedSemaphore(AT_ONCE)
        self._vain_until = float("-inf")

    def comes(self, awaited: Iterable[str], catalog: Callable[[], Catalog]) -> bool:
        """Wait until one of the awaited objects is in the caches, for at most `SECONDS`. Return whether one is.

        False at once if `AT_ONCE` reviews wait already, or a wait was in vain a moment ago.

        :param awaited: texts of `gangs.model.Gang.waiting_for`.
        :param catalog: returns the current objects of the caches.
        """
        keys = [each.key for text in awaited for each in objects_in(text) if each.name]
        began = self._clock.monotonic()
        if not keys or began < self._vain_until or not self._turns.acquire(blocking=False):
            return False
        try:
            while not any(key in catalog() for key in keys):
                if self._clock.monotonic() - began > SECONDS:
                    self._vain_until = self._clock.monotonic() + PAUSE_SECONDS
                    return False
                self._clock.sleep(_LOOK_SECONDS)
        finally:
            self._turns.release()
        return True
