"""The image for an architecture, built without a container runtime and without an emulator.

It has the contents that the Dockerfile describes: on a base of Debian's packages, the environment /venv with the locked
dependencies and Phalanx, compiled. Wheels and packages of another architecture are unpacked, and none of their programs
is run. Python's bytecode does not depend on the architecture, so the Python that builds compiles it.
"""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from image.leave_out import leave_out
from release import base, oci, wheels
from release.packing import as_json, entry, sha256
from release.parts import ROOT, NotMadeError, Release

ARCHITECTURES = tuple(wheels.MACHINES)
MEGABYTES = 300
"""The largest archive of one architecture. The archives of version 0.1.0 have 92 and 96 MB."""
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CONFIGURATION = "home = /usr/bin\ninclude-system-site-packages = false\nversion = {python}\n"
_VARIANTS = {"arm64": {"variant": "v8"}}
"""By architecture, the fields of a platform besides `os` and `architecture` (the platform table of Go's containers)."""


@dataclass(frozen=True, slots=True)
class Made:
    """An image of the release.

    `dependencies`: the SHA-256 digest of each wheel and Debian package in the image, by name. `components`: the Debian
    packages of the base, as a CycloneDX document.
    """

    architecture: str
    digest: str
    dependencies: dict[str, str]
    components: bytes


def make(release: Release, architecture: str) -> Made:
    """Build the image for an architecture, and write its archive.

    :raises NotMadeError: a program or a download that the build needs is missing. The text names it.
    """
    if f"{sys.version_info.major}.{sys.version_info.minor}" != wheels.PYTHON:
        running = ".".join(map(str, sys.version_info[:3]))
        raise NotMadeError(
            f"the image's Python {wheels.PYTHON} needs its bytecode compiled by Python {wheels.PYTHON}, and this is "
            f"{running}. Install it, then: make clean; make release PYTHON=python{wheels.PYTHON} …"
        )
    with tempfile.TemporaryDirectory(prefix="phalanx-release-") as name:
        folder = Path(name)
        debian = base.make(architecture, folder, release.mtime)
        downloaded = wheels.download(architecture, folder)
        environment = folder / "root" / "venv"
        _make_environment(environment, [*downloaded, release.wheel])
        application = oci.layer(folder / "venv.tar.gz", _adder(environment, release.mtime))
        layers = (debian.layer, application)
        described = as_json(configuration(release, architecture, [each.diff_id for each in layers]))
        config = oci.content(folder / "config.json", described, oci.IMAGE_CONFIG)
        archive = release.image_archive(architecture)
        blobs = [each.blob for each in layers]
        digest = oci.write(archive, config, blobs, tag=release.version, mtime=release.mtime)
        dependencies = {each.name: sha256(each) for each in downloaded}
        dependencies |= {each.purl: each.sha256 for each in debian.packages}
        components = base.bill_of_materials(debian, architecture, release.version)
    if (size := archive.stat().st_size) > MEGABYTES * 1_000_000:
        raise NotMadeError(
            f"{archive.name} has {size // 1_000_000} MB, more than {MEGABYTES} MB: see image/leave_out.py"
        )
    return Made(architecture, digest, dependencies, components)


def configuration(release: Release, architecture: str, diff_ids: list[str]) -> dict[str, Any]:
    """Return the image's configuration (opencontainers/image-spec, config.md).

    The settings are those of the Dockerfile's last stage.
    """
    created = datetime.fromtimestamp(release.mtime, UTC).isoformat().replace("+00:00", "Z")
    labels = {"org.opencontainers.image.title": "phalanx", "org.opencontainers.image.version": release.version}
    steps = (f"Debian packages ({base.SUITE})", "Phalanx and its locked dependencies")
    return {
        "created": created,
        "architecture": architecture,
        "os": "linux",
        **_VARIANTS.get(architecture, {}),
        "config": last_stage((ROOT / "Dockerfile").read_text()) | {"Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
        "history": [{"created": created, "created_by": each} for each in steps],
    }


def last_stage(dockerfile: str) -> dict[str, Any]:
    """Return the settings of the last stage of a Dockerfile, as the field `config` of an image's configuration."""
    config: dict[str, Any] = {}
    for line in dockerfile.replace("\\\n", " ").splitlines():
        name, _, rest = line.partition(" ")
        match name:
            case "FROM":
                config = {"Env": [f"PATH={_SYSTEM_PATH}"]}
            case "ENV":
                variables = dict(each.split("=", 1) for each in rest.split())
                variables["PATH"] = variables.get("PATH", "$PATH").replace("$PATH", _SYSTEM_PATH)
                config["Env"] = [f"{key}={value}" for key, value in variables.items()]
            case "USER":
                config["User"] = rest
            case "WORKDIR":
                config["WorkingDir"] = rest
            case "ENTRYPOINT":
                config["Entrypoint"] = json.loads(rest)
    return config


def _make_environment(environment: Path, installed: list[Path]) -> None:
    """Create a virtual environment for the image's Python, install the wheels and compile them.

    :param installed: the wheels. The last one is Phalanx; of all other ones, `leave_out` removes the unused files.
    """
    packages = environment / "lib" / f"python{wheels.PYTHON}" / "site-packages"
    packages.mkdir(parents=True)
    (environment / "bin").mkdir()
    for link, target in (("python", "/usr/bin/python3"), ("python3", "python"), (f"python{wheels.PYTHON}", "python")):
        (environment / "bin" / link).symlink_to(target)
    (environment / "lib64").symlink_to("lib")
    (environment / "pyvenv.cfg").write_text(_CONFIGURATION.format(python=wheels.PYTHON))
    for wheel in installed[:-1]:
        wheels.unpack(wheel, packages)
    leave_out(environment)
    wheels.unpack(installed[-1], packages)
    compiling = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    paths = ["-s", str(environment.parent), "-p", "/", str(environment / "lib")]
    # The order of a set's constants, and so the bytecode, depends on the hash seed.
    subprocess.run([*compiling, *paths], check=True, env={**os.environ, "PYTHONHASHSEED": "0"})


def _adder(environment: Path, mtime: int) -> Callable[[tarfile.TarFile], None]:
    """Return a function that adds a virtual environment to a layer, as /venv."""
    root = environment.parent

    def add(tar: tarfile.TarFile) -> None:
        for path in (environment, *sorted(environment.rglob("*"))):
            program = path.is_dir() or os.access(path, os.X_OK)
            info = entry(str(path.relative_to(root)), 0, mtime=mtime, executable=program)
            if path.is_symlink():
                info.type, info.linkname = tarfile.SYMTYPE, str(path.readlink())
                tar.addfile(info)
            elif path.is_dir():
                info.type = tarfile.DIRTYPE
                tar.addfile(info)
            else:
                info.size = path.stat().st_size
                with path.open("rb") as file:
                    tar.addfile(info, file)

    return add
