"""Detects when the API server begins or stops to serve a kind, so that missing kinds need not be polled one by one.

One document of the API server lists all kinds (KEP-3352). It has an ETag, so the response is a few bytes while nothing
changes.
"""

import logging
import threading
from collections.abc import Callable
from http import HTTPStatus

from kubernetes.client.exceptions import ApiException

from cluster.api.transport import UNREACHABLE, Transport, message_of
from timing.clock import SYSTEM_CLOCK, Clock

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""Seconds between two requests for the document."""
_VAIN_SECONDS = 30.0
"""Seconds between two requests if the document has no ETag or cannot be read."""
_FIRST_SECONDS = 1.0
"""Seconds for which `start` waits for the first request."""
_PATH = "/apis"
_ACCEPT = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


class Discovery:
    """Calls `on_change`, in its own thread, when the set of served kinds has changed."""

    def __init__(
        self,
        transport: Transport,
        on_change: Callable[[], None],
        seconds: float = LOOK_SECONDS,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self.name = "discovery"
        self._transport = transport
        self._on_change = on_change
        self._seconds = seconds
        self._tag = ""
        self._asked = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="discovery", daemon=True)

    def start(self, patience: float = _FIRST_SECONDS) -> None:
        """Start the thread, and wait up to `patience` seconds for its first request.

        A kind that appears after that request is noticed, so `on_change` is called.
        """
        self._thread.start()
        self._clock.wait(self._asked, patience)

    def stop(self) -> None:
        """Ask the thread to end, and return at once."""
        self._stopping.set()

    def join(self, timeout: float) -> bool:
        """Wait until the thread has ended; False if it has not ended within `timeout` seconds."""
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        telling = self._looked()
        self._asked.set()
        while not self._clock.wait(self._stopping, self._seconds if telling else _VAIN_SECONDS):
            telling = self._looked()

    def _looked(self) -> bool:
        """Request the API server's document about all served kinds once, and call `on_change` if it has changed.

        Return whether a later request can detect a change; False if there is no ETag or the request failed.
        """
        try:
            tag = self._read()
        except ApiException as error:
            if error.status == HTTPStatus.NOT_MODIFIED:
                return True
            log.debug("%s: %s", _PATH, message_of(error))
            return False
        except UNREACHABLE as error:
            log.debug("%s: %s", _PATH, error)
            return False
        changed, self._tag = tag != self._tag and self._asked.is_set(), tag
        if changed:
            self._on_change()
        return bool(tag)

    def _read(self) -> str:
        """Return the present ETag of the API server's document about all served kinds; "" if it has none.

        :raises ApiException: with status 304 if the document has not changed. For other errors, see `Transport.open`.
        """
        headers = {"Accept": _ACCEPT} | ({"If-None-Match": self._tag} if self._tag else {})
        response = self._transport.open("GET", _PATH, headers=headers)
        try:
            response.read()
            return str(response.headers.get("ETag", ""))
        finally:
            response.release_conn()
