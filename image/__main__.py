"""Builds the container image with the tools of this machine: `python -m image [BASE]`.

docker or podman builds it if one of them has or can pull the base image. Otherwise buildah builds it, on a base that
mmdebstrap creates from Debian's packages. That needs neither a daemon nor an image registry.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from pathlib import Path

from controlplane.programs.binaries import cache_directory
from controlplane.progress import Progress

ROOT = Path(__file__).parents[1]
NAME = f"phalanx:{tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']['version']}"
ARCHIVE = ROOT / "dist" / "phalanx.oci.tar"
BASE = "python:3.11-slim"

OWN_BASE = "localhost/python:3.11-slim"
"""The base that is built from Debian's packages instead of `BASE`."""
PACKAGES = "python3,python3-venv,python3-pip,python-is-python3,ca-certificates"
SUITE = "bookworm"
"""Debian's release that has Python 3.11."""
BASE_DAYS = 7
"""After this number of days, our own base is rebuilt with the latest packages of Debian."""
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")

_WITHOUT_BASE = """\
no base for the image: there is no docker or podman that has or can pull {base},
and buildah and mmdebstrap, which would do without one, are not both here.
On Debian and Ubuntu: apt-get install buildah mmdebstrap"""


class NoBaseError(Exception):
    """No tool on this machine can build the image."""


class Buildah:
    """buildah, with its images in the folder `folder`. Its storage driver `vfs` works on every file system."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._command = ["buildah", "--storage-driver=vfs", f"--root={folder}/images", f"--runroot={folder}/run"]

    def run(self, *arguments: str) -> None:
        """Run a buildah command without a container runtime. Raises `subprocess.CalledProcessError`."""
        subprocess.run([*self._command, *arguments], check=True, env={"BUILDAH_ISOLATION": "chroot", **os.environ})

    def make_base(self) -> None:
        """Create our own base image from Debian's packages, if there is none or it is too old."""
        made = self._folder / f"{SUITE}.made"
        if made.exists() and time.time() - made.stat().st_mtime < BASE_DAYS * 86_400:
            return
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            context = Path(folder)
            with Progress().step(f"a base of Debian's packages ({SUITE})"):
                command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", SUITE]
                subprocess.run([*command, str(context / "base.tar")], check=True)
            (context / "Dockerfile").write_text("FROM scratch\nADD base.tar /\n")
            self.run("build", "--quiet", f"--tag={OWN_BASE}", folder)
        made.touch()

    def build(self) -> None:
        """Build the image and write its archive. Return a text that names the tool and the base image.

        :raises NoBaseError: no tool can build the image; the message says what would help.
        :raises subprocess.CalledProcessError: the build failed; its output has the reason.
        """
        self.make_base()
        # The build trusts the machine's own certificate authorities, as the programs on the machine do.
        trusting = [f"--volume={AUTHORITIES}:{AUTHORITIES}:ro"] if AUTHORITIES.exists() else []
        self.run("build", "--network=host", *trusting, f"--build-arg=PYTHON={OWN_BASE}", f"--tag={NAME}", str(ROOT))
        self.run("push", "--quiet", NAME, f"oci-archive:{ARCHIVE}:{NAME}")


def build(base: str = BASE) -> str:
    """Build the image and write its archive. Return the tool and the base in words.

    :raises NoBaseError: no tool can build the image; the message says what would help.
    :raises subprocess.CalledProcessError: the build failed, and has printed why.
    """
    ARCHIVE.parent.mkdir(exist_ok=True)
    ARCHIVE.unlink(missing_ok=True)
    tool = next((each for each in ("docker", "podman") if has_base(each, base)), None)
    if tool:
        subprocess.run([tool, "build", f"--build-arg=PYTHON={base}", f"--tag={NAME}", str(ROOT)], check=True)
        form = ["--format=oci-archive"] if tool == "podman" else []  # docker 25 writes OCI by default
        subprocess.run([tool, "save", *form, f"--output={ARCHIVE}", NAME], check=True)
        return f"{tool}, on {base}"
    if not (shutil.which("buildah") and shutil.which("mmdebstrap")):
        raise NoBaseError(_WITHOUT_BASE.format(base=base))
    folder = cache_directory() / "image"
    folder.mkdir(parents=True, exist_ok=True)
    Buildah(folder).build()
    return f"buildah, on Debian's packages ({SUITE})"


def has_base(tool: str, base: str) -> bool:
    """Whether a tool (docker or podman) is installed, works, and has the base image or can pull it."""
    if not shutil.which(tool):
        return False
    asked = (["image", "inspect", base], ["pull", base])
    return any(subprocess.run([tool, *each], capture_output=True, check=False).returncode == 0 for each in asked)


def digest_of(archive: Path) -> str:
    """Return the digest of the only image in an OCI archive. Signatures and registries refer to the image by this
    digest.
    """
    with tempfile.TemporaryDirectory() as folder, tarfile.open(archive) as packed:
        packed.extract("index.json", folder, filter="data")
        (manifest,) = json.loads((Path(folder) / "index.json").read_text())["manifests"]
    return str(manifest["digest"])


def main(arguments: list[str]) -> str | None:
    """Build the image, and print its name, archive and digest.

    Returns an error message if the build failed, else None.
    """
    try:
        how = build(*arguments)
    except (NoBaseError, subprocess.CalledProcessError) as error:
        return f"error: {error}"
    print(f"{NAME} by {how}\n{ARCHIVE.relative_to(ROOT)} {digest_of(ARCHIVE)}")  # noqa: T201 - the answer
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
