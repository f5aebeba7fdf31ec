"""Asks the API server whether the bearer of a token may use a path of one of Phalanx's own servers.

TokenReview identifies the user. SubjectAccessReview on a non-resource path returns whether the user may use it:
https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from kubernetes.client.exceptions import ApiException

from cluster.api.callers import token_in
from cluster.api.transport import UNREACHABLE, Transport, message_of
from timing.clock import SYSTEM_CLOCK, Clock

KEEP_SECONDS = 60.0
"""Seconds for which the result of a check is cached."""
MOST_KEPT = 1024
"""The most cached results. The oldest one is dropped first."""
TIMEOUT = (2.0, 5.0)

_BEARER = {"WWW-Authenticate": "Bearer"}


class Access(Enum):
    """The result of an access check."""

    ALLOWED = "allowed"
    FORBIDDEN = "forbidden"
    UNKNOWN_USER = "unknown user"


class AccessError(Exception):
    """The API server did not answer the access check."""


class AccessCheck(Protocol):
    """Decides which tokens may use which paths of a server."""

    def access(self, token: str, verb: str, path: str) -> Access:
        """Return whether the bearer of the token may use the path.

        :param verb: the HTTP method in lower case, such as "get".
        :raises AccessError: the API server did not answer.
        """


@dataclass(frozen=True, slots=True)
class Refusal:
    """The HTTP response to a request that is denied. `text`: the reason, as one line for users."""

    status: int
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)


def refusal(check: AccessCheck, authorization: str, verb: str, path: str) -> Refusal | None:
    """Return the response that denies this request; None if the request is allowed.

    :param authorization: the request's Authorization header; "" if it has none.
    :param verb: the HTTP method in lower case, such as "get".
    """
    if not (token := token_in(authorization)):
        return Refusal(401, "a bearer token is needed", _BEARER)
    try:
        decision = check.access(token, verb, path)
    except AccessError as error:
        return Refusal(503, str(error))
    match decision:
        case Access.ALLOWED:
            return None
        case Access.UNKNOWN_USER:
            return Refusal(401, "the token is not valid", _BEARER)
        case Access.FORBIDDEN:
            return Refusal(403, f"you may not {verb} the path {path}")


class AccessReviewer:
    """An `AccessCheck` that asks the API server and caches each result for `KEEP_SECONDS`. Safe to share by threads."""

    def __init__(self, transport: Transport, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._transport = transport
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[bytes, str, str], tuple[float, Access]] = OrderedDict()

    def access(self, token: str, verb: str, path: str) -> Access:
        """Return whether the bearer of the token may use the path, from the cache or from the API server.

        :param verb: the HTTP method in lower case, such as "get".
        :raises AccessError: the API server did not answer.
        """
        key = (hashlib.sha256(token.encode()).digest(), verb, path)
        with self._lock:
            until, answer = self._kept.get(key, (0.0, Access.FORBIDDEN))
        if self._clock.monotonic() < until:
            return answer
        answer = self._ask(token, verb, path)
        with self._lock:
            self._kept[key] = (self._clock.monotonic() + KEEP_SECONDS, answer)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return answer

    def _ask(self, token: str, verb: str, path: str) -> Access:
        status = self._review("authentication.k8s.io/v1", "TokenReview", {"token": token})
        if not status.get("authenticated"):
            return Access.UNKNOWN_USER
        user = status.get("user") or {}
        spec = {
            "user": user.get("username", ""),
            "groups": user.get("groups") or [],
            "uid": user.get("uid", ""),
            "extra": user.get("extra") or {},
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        allowed = self._review("authorization.k8s.io/v1", "SubjectAccessReview", spec).get("allowed")
        return Access.ALLOWED if allowed else Access.FORBIDDEN

    def _review(self, api_version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
        body = {"apiVersion": api_version, "kind": kind, "spec": spec}
        try:
            answer = self._transport.request("POST", f"/apis/{api_version}/{kind.lower()}s", body=body, timeout=TIMEOUT)
        except (ApiException, *UNREACHABLE) as error:
            raise AccessError(f"{kind} failed: {message_of(error)}") from error
        status: dict[str, Any] = answer.get("status") or {}
        return status
