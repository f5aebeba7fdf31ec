"""Downloads programs from Kubernetes' official releases, instead of building them, if the network provides them.

The release process publishes each program beside its SHA-256
(https://kubernetes.io/docs/tasks/tools/install-kubectl-linux/ describes both addresses).
"""

import hashlib
import os
import platform
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

BASE = "https://dl.k8s.io/release"
VARIABLE = "PHALANX_RELEASES"
"""The environment variable with another base address, such as that of a mirror. Empty: nothing is downloaded."""

_ANSWER_SECONDS = 5.0
"""How long a server may take to answer. A network without that server mostly refuses at once."""
_CHUNK_BYTES = 1 << 20
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class UnavailableError(Exception):
    """A program could not be downloaded. The text is the reason."""


def download(names: Sequence[str], version: str, folder: Path) -> list[str]:
    """Download these programs of Kubernetes into `folder`. Return the names of the downloaded programs.

    After the first unavailable program, no other one is tried, because the network does not reach the releases.
    """
    base = os.environ.get(VARIABLE, BASE)
    architecture = _ARCHITECTURES.get(platform.machine())
    done: list[str] = []
    if not base or architecture is None or platform.system() != "Linux":
        return done
    for name in names:
        try:
            fetch(f"{base}/{version}/bin/linux/{architecture}/{name}", folder / name)
        except UnavailableError:
            break
        done.append(name)
    return done


def fetch(address: str, target: Path) -> None:
    """Download one program and compare it with its published SHA-256.

    :raises UnavailableError: the download failed, or differs from its SHA-256; then `target` does not exist.
    """
    partial = target.with_name(f"{target.name}.download")
    digest = hashlib.sha256()
    try:
        with urllib.request.urlopen(f"{address}.sha256", timeout=_ANSWER_SECONDS) as answer:  # noqa: S310 - a fixed scheme, or the user's own
            wanted = answer.read(1024).decode("ascii", "replace").split()[:1]
        with urllib.request.urlopen(address, timeout=_ANSWER_SECONDS) as answer, partial.open("wb") as file:  # noqa: S310 - as above
            while chunk := answer.read(_CHUNK_BYTES):
                digest.update(chunk)
                file.write(chunk)
        if wanted != [digest.hexdigest()]:
            raise UnavailableError(f"{address} does not have the published SHA-256 {' '.join(wanted)}")
        partial.chmod(0o755)
        partial.rename(target)
    except (OSError, ValueError) as error:
        raise UnavailableError(f"{address} cannot be downloaded: {error}") from error
    finally:
        partial.unlink(missing_ok=True)
