"""Who may ask on the admission paths: whoever reaches them, or only who proves to be the API server."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from serving.application import peer_certificate

Caller = Callable[[Mapping[str, Any]], str]
"""Given a request's WSGI environment: "" where its sender may ask, else why not."""


def anybody(_environ: Mapping[str, Any]) -> str:
    """Let everybody ask: the answers hold nothing that is secret, and change nothing."""
    return ""


class Certified:
    """Lets those ask who have shown a certificate that the TLS side believes (`serving.tls.CertificateFolder`).

    :param names: the common names that are meant; none: every certificate of the authority will do.
    """

    def __init__(self, names: Collection[str] = ()) -> None:
        self._names = frozenset(names)

    def __call__(self, environ: Mapping[str, Any]) -> str:
        """Whether the sender may ask: "" or why not."""
        certificate = peer_certificate(environ)
        if not certificate:
            return "admission is for the API server: show its client certificate"
        names = {value for part in certificate["subject"] for key, value in part if key == "commonName"}
        if self._names and not self._names & names:
            return f"admission is for {_listed(self._names)}; the certificate is of {_listed(names)}"
        return ""


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "nobody"
