"""Notices that the API server begins or ceases to serve a kind, so that nobody has to ask for each that is missing.

All kinds stand in one document (KEP-3352), which has a tag: while nothing changes the answer is a few bytes.
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
_VAIN_SECONDS = 30.0
"""How soon to look again where the document has no tag, or does not come."""
_FIRST_SECONDS = 1.0
"""How long to wait for the first look."""
_PATH = "/apis"
_ACCEPT = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


class Discovery:
    """Calls `on_change`, in a thread of its own, when the kinds that are served have changed."""

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
        """Begin, and wait a moment for the first look: whoever asks for a kind after that is told when it comes."""
        self._thread.start()
        self._clock.wait(self._asked, patience)

    def stop(self) -> None:
        """Ask it to end; returns at once."""
        self._stopping.set()

    def join(self, timeout: float) -> bool:
        """Wait until the thread has ended; False where it has not within `timeout` seconds."""
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        telling = self._looked()
        self._asked.set()
        while not self._clock.wait(self._stopping, self._seconds if telling else _VAIN_SECONDS):
            telling = self._looked()

    def _looked(self) -> bool:
        """Look once; whether that can tell a change."""
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
        """The tag of the document; "" where it has none. Raises as `Transport.open`."""
        headers = {"Accept": _ACCEPT} | ({"If-None-Match": self._tag} if self._tag else {})
        response = self._transport.open("GET", _PATH, headers=headers)
        try:
            response.read()
            return str(response.headers.get("ETag", ""))
        finally:
            response.release_conn()
