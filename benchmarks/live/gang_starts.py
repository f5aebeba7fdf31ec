"""Reads from a watch when the pods of many gangs are bound, and computes the figures of these gang starts."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from statistics import mean
from typing import Any, Self

from benchmarks.live import load
from controlplane.control_plane import ControlPlane

IN_PART_SECONDS = 5.0
"""A gang that is in part for longer counts. Binding one gang of 8 pods takes a stock scheduler less on any machine."""
_RETRY_SECONDS = 0.2
"""The pause before an ended watch is continued."""
_NOT_OF_INTEREST = (b'{"type":"MODIFIED"', b'{"type":"BOOKMARK"')
"""The beginnings of events that are not decoded. A binding is an ADDED event, because the watch selects bound pods."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A pod of a gang is bound to `node`; an empty `node` means that the bound pod is gone. `at`: monotonic seconds."""

    at: float
    gang: str
    pod: str
    node: str


@dataclass(frozen=True, slots=True)
class Starts:
    """When the pods of gangs of equal size, created at once, were bound.

    :ivar bound: the number of pods that were bound at the end.
    :ivar seconds: from the beginning to the last binding.
    :ivar half: seconds from the beginning until half of all pods were bound.
    :ivar racks: how many racks a gang used at the end, as the mean of all gangs.
    :ivar in_part: by gang, the longest time without a break in which some but not all of its pods were bound.
    """

    bound: int
    seconds: float
    half: float
    racks: float
    in_part: Mapping[str, float]

    @property
    def long_in_part(self) -> int:
        """The number of gangs that were in part for longer than `IN_PART_SECONDS`."""
        return sum(seconds > IN_PART_SECONDS for seconds in self.in_part.values())


class BindingWatch:
    """Records in a thread when pods of Jobs are bound, and when bound pods are deleted. Use it as a context manager.

    The API server ends a watch whose client reads too slowly, as on a busy machine. The next watch continues from the
    last event. The field selector spares the client all events before a pod's binding.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self._plane, self._since = plane, ""
        self._bindings, self._bound = list[Binding](), set[str]()
        self._changed, self._over, self._failure = threading.Condition(), threading.Event(), ""
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, name="bindings", daemon=True)

    def __enter__(self) -> Self:
        """Start the watch. It records the bindings from now on."""
        self._since = self._plane.request("GET", f"{load.PODS}?limit=1")["metadata"]["resourceVersion"]
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the watch."""
        self._over.set()
        while self._thread.is_alive():  # a new connection may have begun after `_over` was checked
            if self._socket is not None:
                with suppress(OSError):
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # wakes the reader; close() would not
            self._thread.join(_RETRY_SECONDS)

    def await_bound(self, pods: int, seconds: float) -> list[Binding]:
        """Wait until so many pods are bound at once, and return all changes until then.

        :raises TimeoutError: the pods were not bound within `seconds`, or the watch has failed.
        """
        with self._changed:
            self._changed.wait_for(lambda: len(self._bound) >= pods or bool(self._failure), seconds)
            if len(self._bound) < pods:
                reason = self._failure or f"waited {seconds:.0f} s"
                raise TimeoutError(f"{len(self._bound)} of {pods} pods are bound: {reason}")
            return list(self._bindings)

    def _run(self) -> None:
        while not (self._over.is_set() or self._failure):
            with (
                suppress(OSError, ValueError, http.client.HTTPException),
                closing(self._plane.watch(load.PODS, self._since, "spec.nodeName!=")) as connection,
            ):
                self._socket = connection.sock
                for line in connection.getresponse():
                    if not line.startswith(_NOT_OF_INTEREST):
                        self._note(json.loads(line), time.monotonic())
            self._over.wait(_RETRY_SECONDS)

    def _note(self, event: Mapping[str, Any], at: float) -> None:
        with self._changed:
            if event["type"] == "ERROR":
                self._failure = str(event["object"].get("message"))
            else:
                change = binding_of(event["type"], event["object"], at)
                self._since = event["object"]["metadata"]["resourceVersion"]
                self._bindings.append(change)
                (self._bound.add if change.node else self._bound.discard)(change.pod)
            self._changed.notify_all()


def binding_of(kind: str, pod: load.Manifest, at: float) -> Binding:
    """Return the change that an event of a watch on bound pods reports. `kind`: ADDED (is bound) or DELETED."""
    node = pod["spec"]["nodeName"] if kind == "ADDED" else ""
    return Binding(at, load.job_of(pod), pod["metadata"]["name"], node)


def starts(changes: Sequence[Binding], gangs: int, size: int, began: float) -> Starts:
    """Return the figures of `gangs` gangs of `size` pods each. `began`: when their creation began.

    :raises ValueError: there are no changes.
    """
    if not changes:
        raise ValueError("no pod was bound")
    nodes, in_part, since = dict[str, dict[str, str]](), dict[str, float](), dict[str, float]()
    half, total = changes[-1].at, 0
    for change in changes:
        of_gang = nodes.setdefault(change.gang, {})
        total -= len(of_gang)
        if change.node:
            of_gang[change.pod] = change.node
        else:
            of_gang.pop(change.pod, None)
        total += len(of_gang)
        if 2 * total >= gangs * size:
            half = min(half, change.at)
        if 0 < len(of_gang) < size:
            since.setdefault(change.gang, change.at)
        elif change.gang in since:
            lasted = change.at - since.pop(change.gang)
            in_part[change.gang] = max(lasted, in_part.get(change.gang, 0.0))
    for gang, beginning in since.items():
        in_part[gang] = max(changes[-1].at - beginning, in_part.get(gang, 0.0))
    racks = [len({load.rack_of(node) for node in of_gang.values()}) for of_gang in nodes.values() if of_gang]
    return Starts(total, changes[-1].at - began, half - began, mean(racks) if racks else 0.0, in_part)
