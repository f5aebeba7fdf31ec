"""The objects that a gang is said to wait for, and a moment's patience with those that are on their way.

A PodGroup and its pods come in one `kubectl apply`, a few milliseconds apart, and the caches may not have the first yet
when the second is reviewed. Its author would be told that it is missing.
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
"""How long a pod is patient."""
PAUSE_SECONDS = 10.0
"""After patience in vain there is none for so long: pods that come before their group, one by one, wait once."""
AT_ONCE = 2
"""Pods that may be patient at a time; others are answered at once."""
_LOOK_SECONDS = 0.005

_NAMED: defaultdict[str, list[ResourceKind]] = defaultdict(list)
"""Those of a kind's name, or whose objects are meant by it, whatever their groups."""
for _each in all_kinds():
    for _name in {_each.kind, _each.describes} - {""}:
        _NAMED[_name].append(_each)
_AWAITED = re.compile(r'(?P<kind>\w+) (?:(?:(?P<namespace>[^\s/]+)/)?(?P<name>[^\s/]+)|with a level ".*")')


@dataclass(frozen=True, slots=True)
class AwaitedObject:
    """What may be meant by the words of a gang that waits. `name`: "" for any object of the kind."""

    kind: ResourceKind
    namespace: str
    name: str

    @property
    def key(self) -> ObjectKey:
        """As catalogues have it."""
        return self.kind.group, self.kind.kind, self.namespace, self.name


def objects_in(text: str) -> Iterator[AwaitedObject]:
    """The objects that may be meant by what a gang waits for (`gangs.model.Gang.waiting_for`); none where it is none.

    Without a name only kinds are sought whose objects are few: topologies.
    """
    if (said := _AWAITED.fullmatch(text)) is not None:
        for kind in _NAMED.get(said["kind"], ()):
            if kind.namespaced == (said["namespace"] is not None) if said["name"] else kind.describes:
                yield AwaitedObject(kind, said["namespace"] or "", said["name"] or "")


class Patience:
    """Waits for objects to come to the caches; asks no other server. Safe to share between threads."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._turns = threading.BoundedSemaphore(AT_ONCE)
        self._vain_until = float("-inf")

    def comes(self, awaited: Iterable[str], catalog: Callable[[], Catalog]) -> bool:
        """Whether one of the objects that are awaited has come within a moment.

        :param catalog: what the caches hold, as of the call.
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
