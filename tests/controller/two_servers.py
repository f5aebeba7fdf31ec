"""Send the same requests to the local API server and to a real one, and compare each answer."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kubernetes.client.exceptions import ApiException

from cluster.api.transport import MERGE_PATCH, STRATEGIC_MERGE_PATCH, Transport, lines_of

PODS = "/api/v1/namespaces/default/pods"
GANGS = "/apis/phalanx.dev/v1alpha1/namespaces/default/gangs"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"

_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_VERSION = re.compile(r"\b\d{2,}\b")
_UNIQUE = {"uid": "<uid>", "resourceVersion": "<version>"}
_LEFT_OUT = {"managedFields", "qosClass", "lastProbeTime"}
"""Fields that the local server never returns and no test needs."""

_INVALID = 422

Body = Mapping[str, Any]


def uid(name: str) -> str:
    """Return a placeholder for the uid that each server has given to an object, named like "pods/a"."""
    return f"@uid:{name}"


def version(name: str) -> str:
    """Return a placeholder for the last resource version of an object on each server."""
    return f"@resourceVersion:{name}"


@dataclass(slots=True)
class _Server:
    """A server of the comparison, and the metadata of the objects that it has answered."""

    transport: Transport
    known: dict[str, Body] = field(default_factory=dict)

    def ask(self, method: str, path: str, body: Any, content_type: str, query: Mapping[str, str]) -> tuple[int, Any]:
        try:
            answer = self.transport.request(
                method, path, query=query, body=self._filled(body), content_type=content_type
            )
        except ApiException as error:
            return error.status, json.loads(error.body or "")
        if answer.get("kind") not in ("Status", None) and "items" not in answer and not query.get("dryRun"):
            plural = (
                path.rsplit("/", maxsplit=1)[-1] if method == "POST" else path.removesuffix("/status").split("/")[-2]
            )
            self.known[f"{plural}/{answer['metadata']['name']}"] = answer["metadata"]
        return 0, answer

    def _filled(self, body: Any) -> Any:
        """With the uids and versions of this server."""
        if isinstance(body, Mapping):
            return {key: self._filled(each) for key, each in body.items()}
        if isinstance(body, list):
            return [self._filled(each) for each in body]
        if isinstance(body, str) and body.startswith("@"):
            key, _, name = body[1:].partition(":")
            return self.known[name][key]
        return body


class TwoServers:
    """Sends each request to both servers; the test fails if their answers differ."""

    def __init__(self, real: Transport, local: Transport) -> None:
        self._servers = _Server(real), _Server(local)

    def ask(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", **query: str
    ) -> tuple[int, Any]:
        """Return the answer of both servers: the code of a refusal, else 0, and the body.

        The texts of errors about invalid objects (422) are not compared.
        """
        real, local = (each.ask(method, path, body, content_type, query) for each in self._servers)
        if real[0] == local[0] == _INVALID:
            return local
        seen, expected = comparable(local[1]), without_defaults(comparable(real[1]), comparable(local[1]))
        assert (local[0], seen) == (real[0], expected), (
            f"{method} {path} {body}\nlocal: {local[0]} {json.dumps(seen)}\nreal:  {real[0]} {json.dumps(expected)}"
        )
        return local

    def post(self, path: str, body: Body, **query: str) -> tuple[int, Any]:
        """Create."""
        return self.ask("POST", path, body, **query)

    def merge(self, path: str, body: Body) -> tuple[int, Any]:
        """A merge patch."""
        return self.ask("PATCH", path, body, MERGE_PATCH)

    def strategic(self, path: str, body: Body) -> tuple[int, Any]:
        """A strategic merge patch."""
        return self.ask("PATCH", path, body, STRATEGIC_MERGE_PATCH)

    def look(self, path: str) -> tuple[int, Any]:
        """Read: the versions that are to be meant from now on."""
        return self.ask("GET", path)

    def events(self, path: str, since: str, count: int) -> list[Any]:
        """The first events of a watch, of both servers. `since`: the name of an object, as `version` takes it."""
        found = [self._events(server, path, since, count) for server in self._servers]
        real, local = ([comparable(each) for each in events] for events in found)
        for told, seen in zip(real, local, strict=True):
            expected = without_defaults(told, seen)
            assert seen == expected, f"{path}\nlocal: {json.dumps(seen)}\nreal:  {json.dumps(expected)}"
        return local

    def _events(self, server: _Server, path: str, since: str, count: int) -> list[Any]:
        begin = server.known[since]["resourceVersion"] if since in server.known else since
        query = {"watch": "true", "resourceVersion": begin, "timeoutSeconds": 30}
        lines = lines_of(server.transport.open("GET", path, query=query))
        events = [json.loads(next(lines)) for _ in range(count)]
        lines.close()
        return events


def comparable(answer: Any, key: str = "") -> Any:
    """Return the answer without the values that differ each time."""
    if isinstance(answer, Mapping):
        kept = {name: each for name, each in answer.items() if name not in _LEFT_OUT}
        if "generateName" in kept:
            kept["name"] = kept["generateName"]
        return {name: _UNIQUE.get(name) or comparable(each, name) for name, each in kept.items()}
    if isinstance(answer, list):
        return [comparable(each) for each in answer]
    if isinstance(answer, str):
        if _TIME.match(answer):
            return "<time>"
        return _VERSION.sub("<version>", _UID.sub("<uid>", answer)) if key == "message" else answer
    return answer


def without_defaults(real: Any, local: Any, *, inside: bool = False) -> Any:
    """Return the real server's answer without the defaults that it adds to a spec."""
    if isinstance(real, Mapping) and isinstance(local, Mapping):
        return {
            key: without_defaults(each, local.get(key), inside=inside or key == "spec")
            for key, each in real.items()
            if key in local or not inside
        }
    if isinstance(real, list) and isinstance(local, list) and len(real) == len(local):
        return [without_defaults(*both, inside=inside) for both in zip(real, local, strict=True)]
    return real
