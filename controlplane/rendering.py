"""`python -m controlplane.rendering`: write manifests/install.yaml, the default installation as one file."""

import subprocess
import sys
from pathlib import Path

from controlplane.binaries import find_binaries

MANIFESTS = Path(__file__).parent.parent / "manifests"
INSTALL = MANIFESTS / "install.yaml"
_HEADER = """\
# The default installation in one file: kubectl apply --server-side -f install.yaml
# Made from manifests/default by `make manifests`; do not edit.
"""


class RenderError(Exception):
    """A kustomization is wrong; the text is kubectl's."""


def kustomize(folder: Path) -> str:
    """The objects that a kustomization stands for, as `kubectl kustomize` prints them.

    :raises RenderError: it stands for nothing.
    """
    command = [find_binaries()["kubectl"], "kustomize", str(folder)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode or answer.stderr:
        raise RenderError(answer.stderr.strip())
    return answer.stdout


def install_file() -> str:
    """What install.yaml is to hold."""
    return _HEADER + kustomize(MANIFESTS / "default")


if __name__ == "__main__":
    INSTALL.write_text(install_file())
    sys.stdout.write(f"{INSTALL.name} written\n")
