"""The base of the image, for any architecture: the unpacked files of Debian's packages.

`mmdebstrap --variant=extract` downloads packages of another architecture and unpacks them without running any of their
programs, so no emulator is needed. The packages' installation scripts do not run. Instead, this module writes the files
that these scripts would write and that the image needs: users, groups, the bundle of certificate authorities. It also
writes the list of packages for vulnerability scanners.
"""

import hashlib
import io
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType

from release.oci import Layer, layer
from release.packing import as_json, entry
from release.parts import NotMadeError

SUITE = "bookworm"
"""Debian 12, the release that has Python 3.11."""
PACKAGES = (
    *("base-files", "base-passwd", "libc-bin", "dash", "coreutils", "ca-certificates"),
    *("python3", "python3-pip", "python-is-python3"),
    "libstdc++6",  # of OR-Tools and numpy
)
"""The Debian packages of the base. Phalanx does not use dash, coreutils and pip: images built on this one need them,
such as the one with tracing in docs/operations.md."""

_LEFT_OUT = (
    # State files of apt, dpkg and debconf, which differ from run to run, and the address of the mirror.
    *("var/cache/*", "var/lib/apt/*", "var/lib/dpkg/*", "var/log/*", "etc/apt/*", "etc/hostname", "etc/resolv.conf"),
    *("dev/*", "proc/*", "sys/*", "run/*", "tmp/*"),
    # No program reads these.
    *("usr/share/man/*", "usr/share/locale/*", "usr/share/lintian/*", "usr/share/info/*", "usr/share/pixmaps/*"),
    "usr/share/bug/*",
)
"""Paths of files that the base leaves out. A star also matches folder separators."""
_DOCUMENTATION = "usr/share/doc/"
_LICENCE = "/copyright"
_WRITTEN_BY_SCRIPTS: Mapping[str, str] = MappingProxyType(
    {
        "etc/passwd": "usr/share/base-passwd/passwd.master",
        "etc/group": "usr/share/base-passwd/group.master",
        "etc/nsswitch.conf": "usr/share/libc-bin/nsswitch.conf",
    }
)
"""By file of the image, the template from which the installation script of a package would copy it."""
AUTHORITIES = "etc/ssl/certs/ca-certificates.crt"
_AUTHORITY = "usr/share/ca-certificates/*.crt"
_ARCHIVES = "var/cache/apt/archives/"
STATUS = "var/lib/dpkg/status.d/"
"""The folder in which vulnerability scanners look for the packages of an image without dpkg, one file for each."""
_DIRECTORY_MODE = 0o755
_WITHOUT_MMDEBSTRAP = (
    "mmdebstrap, which unpacks the packages of the image's base, is not installed. "
    "On Debian and Ubuntu: apt-get install mmdebstrap debian-archive-keyring"
)


@dataclass(frozen=True, slots=True)
class Package:
    """A Debian package of the base.

    `control`: the text of the package's control file. `sha256`: the digest of the .deb file.
    """

    name: str
    version: str
    architecture: str
    control: str
    sha256: str

    @property
    def purl(self) -> str:
        """The package URL (package-url/purl-spec), by which a bill of materials identifies the package."""
        version = self.version.replace("+", "%2B").replace(":", "%3A")
        return f"pkg:deb/debian/{self.name.replace('+', '%2B')}@{version}?arch={self.architecture}&distro={SUITE}"


@dataclass(frozen=True, slots=True)
class Base:
    """The base of an image: its files as one image layer, and the Debian packages in it."""

    layer: Layer
    packages: tuple[Package, ...]


def make(architecture: str, folder: Path, mtime: int) -> Base:
    """Download the base for an architecture, and write its layer into `folder`.

    :raises NotMadeError: mmdebstrap is not installed, or could not download the packages.
    """
    if not shutil.which("mmdebstrap"):
        raise NotMadeError(_WITHOUT_MMDEBSTRAP)
    packed = folder / f"base-{architecture}.tar"
    options = ["--quiet", "--variant=extract", f"--architectures={architecture}", f"--include={','.join(PACKAGES)}"]
    command = ["mmdebstrap", *options, "--skip=cleanup/apt", SUITE, str(packed)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        last = (answer.stderr.strip().splitlines() or [""])[-1]
        raise NotMadeError(f"mmdebstrap could not download the base for {architecture}: {last}")
    with tarfile.open(packed) as tar:
        packages = _packages(tar)
        files = layer(folder / f"base-{architecture}.tar.gz", _adder(tar, packages, mtime))
    packed.unlink()
    return Base(files, packages)


def bill_of_materials(base: Base, architecture: str, version: str) -> bytes:
    """Return the packages of the base as a CycloneDX document."""
    subject = {"type": "container", "name": "phalanx", "version": version, "bom-ref": f"phalanx-base-{architecture}"}
    components = [
        {
            "type": "library",
            "name": each.name,
            "version": each.version,
            "purl": each.purl,
            "bom-ref": each.purl,
            "hashes": [{"alg": "SHA-256", "content": each.sha256}],
        }
        for each in base.packages
    ]
    head = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": {"component": subject}}
    return as_json(head | {"components": components}) + b"\n"


def is_left_out(name: str) -> bool:
    """Whether the base leaves out a file of its packages.

    Of /usr/share/doc, only the licences stay, and the links of packages that share the folder of another package.

    :param name: the path without a leading slash.
    """
    if name.startswith(_DOCUMENTATION) and "/" in name.removeprefix(_DOCUMENTATION):
        return not name.endswith(_LICENCE)
    return any(fnmatchcase(name, pattern) for pattern in _LEFT_OUT)


def _adder(source: tarfile.TarFile, packages: tuple[Package, ...], mtime: int) -> Callable[[tarfile.TarFile], None]:
    """Return a function that adds the files of the base to a layer: the packages' files, then the files that this
    module writes.
    """

    def add(target: tarfile.TarFile) -> None:
        for member in source:
            name = member.name.removeprefix("./")
            if name in {"", "."} or is_left_out(name) or name in _WRITTEN_BY_SCRIPTS or name == AUTHORITIES:
                continue
            member.name, member.mtime, member.pax_headers = name, min(int(member.mtime), mtime), {}
            member.linkname = member.linkname.removeprefix("./") if member.islnk() else member.linkname
            member.uname = member.gname = ""
            target.addfile(member, source.extractfile(member) if member.isreg() else None)
        for folder in ("var/lib/dpkg", STATUS.rstrip("/")):
            info = entry(folder, 0, mtime=mtime)
            info.type, info.mode = tarfile.DIRTYPE, _DIRECTORY_MODE
            target.addfile(info)
        for name, content in sorted(_written(source, packages).items()):
            target.addfile(entry(name, len(content), mtime=mtime), io.BytesIO(content))

    return add


def _written(source: tarfile.TarFile, packages: tuple[Package, ...]) -> dict[str, bytes]:
    """Return, by path, the contents of files that no package contains, because install scripts would write them.

    These are the files of `_WRITTEN_BY_SCRIPTS`, the bundle of certificate authorities, and the list of packages.
    `source`: the archive of the unpacked packages.
    """
    names = {each.name.removeprefix("./"): each for each in source.getmembers()}
    copied = {
        name: _read(source, names[template]) for name, template in _WRITTEN_BY_SCRIPTS.items() if template in names
    }
    authorities = sorted(name for name, each in names.items() if each.isreg() and fnmatchcase(name, _AUTHORITY))
    bundle = b"".join(_read(source, names[name]).rstrip(b"\n") + b"\n" for name in authorities)
    listed = {f"{STATUS}{each.name}": each.control.encode() for each in packages}
    return copied | {AUTHORITIES: bundle} | listed


def _read(source: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = source.extractfile(member)
    if file is None:
        raise NotMadeError(f"{member.name} of the base is no file")
    return file.read()


def _packages(source: tarfile.TarFile) -> tuple[Package, ...]:
    """Return the packages that mmdebstrap unpacked, read from the .deb files that mmdebstrap keeps in apt's cache."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for member in source.getmembers():
            name = member.name.removeprefix("./")
            if not (name.startswith(_ARCHIVES) and name.endswith(".deb")):
                continue
            content = _read(source, member)
            file = Path(folder) / "package.deb"
            file.write_bytes(content)
            control = subprocess.run(["dpkg-deb", "--field", str(file)], capture_output=True, text=True, check=True)
            fields = dict(
                line.split(": ", 1) for line in control.stdout.splitlines() if ": " in line and line[0] != " "
            )
            digest = hashlib.sha256(content).hexdigest()
            package = Package(
                fields["Package"], fields["Version"], fields["Architecture"], control=control.stdout, sha256=digest
            )
            found.append(package)
    return tuple(sorted(found, key=lambda each: each.name))
