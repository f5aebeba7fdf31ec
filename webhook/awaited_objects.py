"""The objects that a gang waits for, and a short wait for objects that are about to reach the caches.

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
"""How long the review of a pod waits for an object."""
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
    """An object that an entry of `gangs.model.Gang.waiting_for` may name. `name`: "" for any object of the kind."""

    kind: ResourceKind
    namespace: str
    name: str

    @property
    def key(self) -> ObjectKey:
        """The key of the object in `kube.catalog.Catalog`."""
        return self.kind.group, self.kind.kind, self.namespace, self.name


def objects_in(text: str) -> Iterator[AwaitedObject]:
    """The objects that a text of `gangs.model.Gang.waiting_for` may name. None if it names no object.

    If the text has no name, only topologies are yielded, a kind with few objects.
    """
    if (said := _AWAITED.fullmatch(text)) is not None:
        for kind in _NAMED.get(said["kind"], ()):
            if kind.namespaced == (said["namespace"] is not None) if said["name"] else kind.describes:
                yield AwaitedObject(kind, said["namespace"] or "", said["name"] or "")


class Patience:
    """Waits until objects reach the caches. It sends no request. Safe to share between threads."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._turns = threading.BoundedSemaphore(AT_ONCE)
        self._vain_until = float("-inf")

    def comes(self, awaited: Iterable[str], catalog: Callable[[], Catalog]) -> bool:
        """Whether one of the awaited objects is in the caches within `SECONDS`. False at once if too many reviews wait.

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
