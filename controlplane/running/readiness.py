"""Checks whether a component of the control plane works, with the requests of its own readiness probes."""

import http.client
import ssl
from collections.abc import Callable
from contextlib import closing

from controlplane.api import ApiServer
from controlplane.running.components import Place

_PROBE_SECONDS = 5.0


def is_ready(component: str, place: Place, api: ApiServer) -> bool:
    """Whether a component serves now. False if no process listens on its port.

    :raises KeyError: there is no such component.
    """
    port = place.ports[component]
    checks: dict[str, Callable[[], bool]] = {
        "etcd": lambda: _answers(_plain(port), "/health"),
        "kube-apiserver": lambda: bool(api.request("GET", "/readyz") == "ok"),
        "kube-scheduler": lambda: _answers(_secure(place, component), "/readyz"),
        "kube-controller-manager": lambda: _answers(_secure(place, component), "/healthz") and _accounts(api),
        "kwok": lambda: _answers(_plain(port), "/healthz"),
    }
    try:
        return checks[component]()
    except (OSError, http.client.HTTPException):
        return False


def _accounts(api: ApiServer) -> bool:
    """Whether the namespace `default` has its service account. Without it the API server admits no pods there."""
    path = "/api/v1/namespaces/default/serviceaccounts/default"
    return bool(api.request("GET", path).get("kind") == "ServiceAccount")


def _plain(port: int) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(f"127.0.0.1:{port}", timeout=_PROBE_SECONDS)


def _secure(place: Place, component: str) -> http.client.HTTPConnection:
    trust = ssl.create_default_context(cafile=str(place.ca_file))
    return http.client.HTTPSConnection(f"127.0.0.1:{place.ports[component]}", context=trust, timeout=_PROBE_SECONDS)


def _answers(connection: http.client.HTTPConnection, path: str) -> bool:
    with closing(connection):
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK
