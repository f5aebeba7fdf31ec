"""Asking the API server in the name of whoever asks us: by his token, so that he sees what he may and nothing else."""

import contextlib
from collections.abc import Callable, Iterator

from kubernetes.client.exceptions import ApiException

from cluster.api.transport import UNREACHABLE, Transport, message_of

AsBearer = Callable[[str], Transport]
"""The API server as the bearer of a token (`Transport.for_bearers`)."""


class NotToldError(Exception):
    """The API server does not tell the caller, or cannot be asked: one line for a person."""


@contextlib.contextmanager
def plain_refusals() -> Iterator[None]:
    """What goes wrong with questions within it is a `NotToldError`."""
    try:
        yield
    except (ApiException, *UNREACHABLE) as error:
        raise NotToldError(message_of(error)) from error


def token_in(authorization: str) -> str:
    """The bearer token of such a header; "" where it holds none."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
