"""`cluster.api.transport.Transport` over the simulated network: the same calls, answers and errors."""

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from kubernetes.client.exceptions import ApiException
from local_api.server import Request

from cluster.api.transport import DEFAULT_TIMEOUT, Timeout, Transport
from simulation.network import Network, Process


class _Response:
    """The part of urllib3's response that product code uses."""

    def __init__(self, status: int, headers: Mapping[str, str], data: bytes) -> None:
        self.status, self.headers, self.data, self.reason = status, headers, data, HTTPStatus(status).phrase

    def read(self) -> bytes:
        """The body."""
        return self.data

    def release_conn(self) -> None:
        """There is no connection."""


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
        status, answered, found = self._network.send(self._process, request, fence)
        response = _Response(status, answered, msgspec.json.encode(found))
        if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            raise ApiException.from_response(http_resp=response, body=json.dumps(found), data=None)
        return response
