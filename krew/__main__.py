"""Builds the archive and the manifest for krew: `python -m krew WHEEL URI HOMEPAGE` writes them into dist/krew.

Equal files give an equal archive, byte for byte. So anyone who rebuilds the archive can check its checksum.
"""

import gzip
import hashlib
import io
import sys
import tarfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from string import Template

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "dist" / "krew"
NAME = "phalanx"
_LAUNCHER = "kubectl-phalanx"
_EXECUTABLE, _PLAIN = 0o755, 0o644


def archive(wheel: Path) -> bytes:
    """Return the archive that krew unpacks: launcher, wheel, locked dependencies, licence."""
    here = Path(__file__).parent
    files = {
        _LAUNCHER: here / _LAUNCHER,
        "requirements.txt": ROOT / "requirements.txt",
        "LICENSE": ROOT / "LICENSE",
        wheel.name: wheel,
    }
    return _packed({name: path.read_bytes() for name, path in files.items()})


def _packed(files: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream, tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = _EXECUTABLE if name == _LAUNCHER else _PLAIN
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def manifest(content: bytes, *, uri: str, homepage: str) -> str:
    """Return the manifest by which krew installs the kubectl plugin, from an archive that is published at `uri`."""
    template = Template((Path(__file__).parent / "manifest.yaml").read_text())
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    digest = hashlib.sha256(content).hexdigest()
    return template.substitute(version=f"v{version}", uri=uri, homepage=homepage, sha256=digest)


def main(wheel: Path, uri: str, homepage: str) -> None:
    """Write the archive and the manifest into dist/krew, and print their paths."""
    TARGET.mkdir(parents=True, exist_ok=True)
    content = archive(wheel)
    (TARGET / f"{NAME}.tar.gz").write_bytes(content)
    (TARGET / f"{NAME}.yaml").write_text(manifest(content, uri=uri, homepage=homepage))
    sys.stdout.write(f"{TARGET / NAME}.tar.gz, to be put at {uri}\n{TARGET / NAME}.yaml\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
