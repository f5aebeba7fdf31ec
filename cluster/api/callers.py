"""Requests to the API server on behalf of a caller, with the caller's token: the caller sees only what it may read."""

import contextlib
from collections.abc import Callable, Iterator

from kubernetes.client.exceptions import ApiException

from cluster.api.transport import UNREACHABLE, Transport, message_of

AsBearer = Callable[[str], Transport]
"""A function that takes a token and returns a transport that authenticates with the token (`Transport.for_bearers`)."""


class NotToldError(Exception):
    """The API server denies the caller's request or cannot be reached. The text is the reason, for users."""


@contextlib.contextmanager
def plain_refusals() -> Iterator[None]:
    """Turn any error of a request to the API server in the `with` block into `NotToldError`."""
    try:
        yield
    except (ApiException, *UNREACHABLE) as error:
        raise NotToldError(message_of(error)) from error


def token_in(authorization: str) -> str:
    """Return the bearer token of an Authorization header; "" if it holds none."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
