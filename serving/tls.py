"""TLS certificates that are replaced while the server runs.

Loading a certificate into an SSL context that serves handshakes is not safe in OpenSSL and can end the process.
Therefore a new context is built beside the live one, and then the reference is exchanged.
"""

import logging
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from certs.files import CERTIFICATE, KEY

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Serving:
    """A loaded certificate: the TLS context that serves it, its DER encoding, and the end of its validity."""

    context: ssl.SSLContext
    certificate: bytes
    not_after: datetime


class CertificateFolder:
    """Loads the certificate and key of a folder as a TLS context, and loads them again whenever the files change.

    `current` is None until the folder has contained a valid pair of files. After that it is the last valid pair.

    :param on_change: called with the end of validity of each newly loaded certificate.
    :param client_authority: a file with the CA certificates that verify client certificates. A client need not present
        one. The handshake fails if a client presents a certificate of another CA.
    """

    def __init__(
        self,
        folder: Path,
        on_change: Callable[[datetime], None] = lambda _: None,
        client_authority: Path | None = None,
    ) -> None:
        self._folder = folder
        self._on_change = on_change
        self._client_authority = client_authority
        self._seen: tuple[bytes, ...] | None = None
        self._complaint = ""
        self._stopped = threading.Event()
        self.current: Serving | None = None

    @property
    def valid(self) -> bool:
        """Whether a certificate is loaded that has not expired."""
        return self.current is not None and datetime.now(UTC) < self.current.not_after

    def problem(self) -> str:
        """Return why no connection can be served; "" if a valid certificate is loaded, whatever the files are now."""
        if self.valid:
            return ""
        expired = f"it expired at {self.current.not_after}" if self.current else ""
        return f"no valid certificate: {self._complaint or expired}"

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context for the next connection; None before the first certificate was loaded."""
        return self.current.context if self.current is not None else None

    def refresh(self) -> bool:
        """Read the certificate and the key. If they are a new valid pair, load them. Return whether a new pair was
        loaded.
        """
        try:
            pair = self._read()
            if pair == self._seen:
                return False
            serving = self._load()
            if self._read() != pair:
                return False  # the files are being replaced: the next check reads them
        except (OSError, ValueError) as error:
            self._complain(f"certificate in {self._folder} is not usable: {error}")
            return False
        self._seen, self.current, self._complaint = pair, serving, ""
        self._on_change(serving.not_after)
        log.info("serving the certificate that is valid until %s", serving.not_after)
        return True

    def watch(self, seconds: float) -> None:
        """Check the certificate and the key for changes now, and then every `seconds` in a thread of its own, until
        `stop`.
        """
        self.refresh()
        threading.Thread(target=self._watch, args=(seconds,), name="certificates", daemon=True).start()

    def stop(self) -> None:
        """Stop checking the certificate and the key for changes."""
        self._stopped.set()

    def _watch(self, seconds: float) -> None:
        while not self._stopped.wait(seconds):
            self.refresh()

    def _read(self) -> tuple[bytes, ...]:
        files = [self._folder / CERTIFICATE, self._folder / KEY]
        if self._client_authority is not None:
            files.append(self._client_authority)
        return tuple(each.read_bytes() for each in files)

    def _load(self) -> Serving:
        # A mounted Secret is replaced by changing one symbolic link, so resolved paths stay in one version of it.
        certificate_file, key_file = (self._folder / CERTIFICATE).resolve(), (self._folder / KEY).resolve()
        certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        if certificate.not_valid_after_utc <= datetime.now(UTC):
            raise ValueError(f"it expired at {certificate.not_valid_after_utc}")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(certificate_file, key_file)
        if self._client_authority is not None:
            context.verify_mode = ssl.CERT_OPTIONAL
            context.load_verify_locations(self._client_authority)
        der = certificate.public_bytes(serialization.Encoding.DER)
        return Serving(context, der, certificate.not_valid_after_utc)

    def _complain(self, complaint: str) -> None:
        """Log a warning about the certificate and the key, unless it is the same as the last one."""
        if complaint != self._complaint:
            self._complaint = complaint
            log.warning(complaint)
