"""`cluster.api.transport.Transport` over the simulated network: the same calls, answers and errors."""

from collections.abc import Callable, Mapping
from typing import Any

from local_api.direct import response_to
from local_api.server import Request

from cluster.api.transport import DEFAULT_TIMEOUT, Timeout, Transport
from simulation.network import Network, Process


class SimulatedTransport(Transport):
    """One process's way to the API server. Watches are not opened here: `watches` delivers their events."""

    def __init__(self, network: Network, process: Process, allowance: Callable[[], float] | None = None) -> None:
        self._network = network
        self._process = process
        self._fence = allowance

    def within(self, allowance: Callable[[], float]) -> "SimulatedTransport":
        """Return a transport of which every write asks `allowance` right before it is sent."""
        return SimulatedTransport(self._network, self._process, allowance)

    def open(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        timeout: Timeout = DEFAULT_TIMEOUT,  # noqa: ARG002 - the signature of the base class
        headers: Mapping[str, str] | None = None,  # noqa: ARG002 - the signature of the base class
    ) -> Any:
        """Send one request."""
        asked = {key: str(value) for key, value in (query or {}).items() if value is not None}
        request = Request(method, path, asked, body, content_type)
        fence = None if method == "GET" else self._fence
        return response_to(self._network.send(self._process, request, fence))
