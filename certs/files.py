"""Writes certificates to files that are named as in a mounted Secret: `tls.crt`, `tls.key` and `ca.crt`."""

import os
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from certs.authority import ServerNames, issue, new_authority

CERTIFICATE = "tls.crt"
KEY = "tls.key"
AUTHORITY = "ca.crt"


def write_self_signed(directory: Path, dns_names: Sequence[str] = (), addresses: Sequence[str] = ()) -> bytes:
    """Create a new authority and a serving certificate for these names, and write both to `directory`.

    The authority's key is not stored, so it can sign nothing else.

    :returns: the authority's certificate (PEM), which clients must trust: the caBundle of a webhook with these files.
    :raises OSError: the directory cannot be written.
    """
    now = datetime.now(UTC)
    authority = new_authority("phalanx self-signed", now)
    leaf = issue(authority, ServerNames(tuple(dns_names), tuple(addresses)), now)
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in ((AUTHORITY, authority.certificate), (KEY, leaf.key), (CERTIFICATE, leaf.certificate)):
        _replace(directory / name, content)
    return authority.certificate


def _replace(path: Path, content: bytes) -> None:
    """Write a file atomically: readers see the old or the new content, never a part. Only its owner may read it."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
