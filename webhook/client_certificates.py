"""Decides which clients may call the admission paths: all clients, or only those with the API server's certificate."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from serving.application import peer_certificate

Caller = Callable[[Mapping[str, Any]], str]
"""Checks a request's WSGI environment. Returns "" if the client may call the path, else the reason against it."""


def anybody(_environ: Mapping[str, Any]) -> str:
    """Allow every client to call the admission paths. The answers contain no secrets and change nothing."""
    return ""


class Certified:
    """A check that allows only clients with a verified certificate (`serving.tls.CertificateFolder` verifies it).

    :param names: the accepted common names. Empty: every certificate that the configured CA has issued.
    """

    def __init__(self, names: Collection[str] = ()) -> None:
        self._names = frozenset(names)

    def __call__(self, environ: Mapping[str, Any]) -> str:
        """Check the client's certificate. Return "" if the client may call the path, else the reason against it."""
        certificate = peer_certificate(environ)
        if not certificate:
            return "admission is for the API server: show its client certificate"
        names = {value for part in certificate["subject"] for key, value in part if key == "commonName"}
        if self._names and not self._names & names:
            return f"admission is for {_listed(self._names)}; the certificate is of {_listed(names)}"
        return ""


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "nobody"
