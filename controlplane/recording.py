"""Records the watch events of a resource, so that a run can be printed or checked afterwards."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from controlplane.control_plane import ControlPlane

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One watch event: its type (ADDED, MODIFIED or DELETED), its object, and its arrival (seconds, monotonic)."""

    type: str
    object: Object
    at: float

    @property
    def name(self) -> str:
        """The name of the object in the event."""
        return str(self.object["metadata"]["name"])


class Recorder:
    """Records the watch events of one API path in a thread, from its start on. Use it as a context manager."""

    def __init__(self, control_plane: ControlPlane, path: str = "/api/v1/pods") -> None:
        self._control_plane = control_plane
        self._path = path
        self._changed = threading.Condition()
        self._events: list[WatchEvent] = []
        self._socket: socket.socket | None = None
        self._response: http.client.HTTPResponse | None = None
        self._ended = ""
        self._thread = threading.Thread(target=self._record, name="recorder", daemon=True)

    def __enter__(self) -> Self:
        """Start the watch. It records the events that happen from now on."""
        start = self._control_plane.request("GET", self._path)["metadata"]["resourceVersion"]
        connection = self._control_plane.watch(self._path, start)
        self._socket = connection.sock
        self._response = connection.getresponse()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the watch. The events recorded so far can still be read."""
        if self._socket:
            with suppress(OSError):  # the server may have ended it before
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # wakes the reader; close() would not
        self._thread.join()
        if self._response:
            self._response.close()
        if self._socket:
            self._socket.close()

    @property
    def events(self) -> list[WatchEvent]:
        """The events recorded so far, in the order of the API server."""
        with self._changed:
            return list(self._events)

    @property
    def ended(self) -> bool:
        """Whether the watch is over, so that no further event will be recorded."""
        with self._changed:
            return bool(self._ended)

    @property
    def ending(self) -> str:
        """How the watch has ended; "" if it has not."""
        with self._changed:
            return self._ended.strip(" ()")

    def of(self, name: str) -> list[WatchEvent]:
        """Return the recorded events of one object."""
        return [event for event in self.events if event.name == name]

    def wait_for(self, condition: Callable[[list[WatchEvent]], bool], seconds: float = 300.0) -> list[WatchEvent]:
        """Wait until `condition` returns True for the events recorded so far, and return these events.

        :raises TimeoutError: `condition` was not True within `seconds`, or the watch has ended; the text contains the
            last events.
        """
        deadline = time.monotonic() + seconds
        with self._changed:
            while not condition(self._events):
                if self._ended or time.monotonic() > deadline:
                    last = [f"{e.type} {e.name}" for e in self._events[-10:]]
                    raise TimeoutError(f"not seen{self._ended or f' within {seconds:.0f} s'}; the last events: {last}")
                self._changed.wait(max(0.0, deadline - time.monotonic()))
            return list(self._events)

    def _record(self) -> None:
        """Record events until the recorder or the server ends the watch."""
        try:
            for line in self._response or ():
                event = json.loads(line)
                with self._changed:
                    self._events.append(WatchEvent(event["type"], event["object"], time.monotonic()))
                    self._changed.notify_all()
            self._end("the server ended the watch")
        except (OSError, ValueError, http.client.HTTPException) as error:
            self._end(f"the watch broke: {error}")

    def _end(self, how: str) -> None:
        with self._changed:
            self._ended = f" ({how})"
            self._changed.notify_all()


def bound(event: WatchEvent) -> str:
    """Return the node of the pod in an event; "" if the pod has none."""
    return str(event.object["spec"].get("nodeName", ""))
