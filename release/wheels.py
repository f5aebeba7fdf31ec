"""Wheels for another platform than this machine's: downloaded by pip, unpacked without running any program of them.

`pip install` refuses wheels of another platform, except into a flat folder (`--target`), where the lists of installed
files (RECORD) are wrong. So this module unpacks the wheels itself. A wheel is a ZIP file with a fixed layout
(packaging.python.org, "Binary distribution format").
"""

import base64
import configparser
import csv
import hashlib
import io
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from release.parts import ROOT, NotMadeError

PYTHON = "3.11"
"""The version of Python in the image, for which requirements.txt is locked."""
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""By the architecture's name in Go and in images, its name in wheels."""
GLIBC = range(17, 37)
"""The minor versions of glibc 2 whose wheels run in the image. The last one is the version in Debian 12."""
_SCRIPT = """\
#!/venv/bin/python
import sys
from {module} import {first}
if __name__ == "__main__":
    sys.exit({function}())
"""
_DATA = {"purelib": "", "platlib": "", "scripts": "../../../bin/", "data": "../../../"}
"""By folder of a wheel's `.data`, where its files go, relative to site-packages. No wheel of ours has `headers`."""


def download(architecture: str, folder: Path) -> list[Path]:
    """Download the locked dependencies as wheels for Linux on an architecture, each checked against its hash.

    :raises NotMadeError: pip could not download all wheels.
    """
    machine = MACHINES[architecture]
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in GLIBC] + [f"manylinux2014_{machine}"]
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"),
        *("--require-hashes", "--only-binary", ":all:", "--implementation", "cp", "--python-version", PYTHON),
        *(part for each in platforms for part in ("--platform", each)),
        *("--requirement", str(ROOT / "requirements.txt"), "--dest", str(folder)),
    ]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        last = (answer.stderr.strip().splitlines() or [""])[-1]
        raise NotMadeError(
            f"pip could not download the dependencies for {machine}: {last}. Check its index and network"
        )
    return sorted(folder.glob("*.whl"))


def unpack(wheel: Path, packages: Path) -> None:
    """Install a wheel into the site-packages of a virtual environment, `<environment>/lib/python3.x/site-packages`."""
    with zipfile.ZipFile(wheel) as files:
        (information,) = {name.split("/")[0] for name in files.namelist() if name.split("/")[0].endswith(".dist-info")}
        record = f"{information}/RECORD"
        rows = [_written(packages, target, files.read(name)) for name, target in _targets(files) if name != record]
        entries = f"{information}/entry_points.txt"
        if entries in files.namelist():
            rows += [_written(packages, *each) for each in _scripts(files.read(entries).decode())]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([*sorted(rows), (record, "", "")])
    (packages / record).write_text(text.getvalue())


def _targets(files: zipfile.ZipFile) -> Iterator[tuple[str, str]]:
    """Yield the path of every file in a wheel, and the path relative to site-packages at which it is installed."""
    for name in files.namelist():
        if name.endswith("/"):
            continue
        first, *rest = PurePosixPath(name).parts
        if first.endswith(".data"):
            yield name, _DATA[rest[0]] + "/".join(rest[1:])
        else:
            yield name, name


def _scripts(entry_points: str) -> Iterator[tuple[str, bytes]]:
    """Yield the scripts of a wheel's console commands: the path relative to site-packages, and the content.

    :param entry_points: the content of the wheel's entry_points.txt.
    """
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]  # names of commands keep their case
    parser.read_string(entry_points)
    if parser.has_section("console_scripts"):
        for name, value in parser.items("console_scripts"):
            module, _, function = value.split("[")[0].strip().partition(":")
            text = _SCRIPT.format(module=module, first=function.split(".")[0], function=function)
            yield f"{_DATA['scripts']}{name}", text.encode()


def _written(packages: Path, target: str, content: bytes) -> tuple[str, str, str]:
    """Write an installed file, and return its row of RECORD, the list of installed files: path, digest, size."""
    script = target.startswith(_DATA["scripts"])
    if script and content.startswith(b"#!python"):
        content = b"#!/venv/bin/python" + content.removeprefix(b"#!pythonw").removeprefix(b"#!python")
    path = packages / target
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o755 if script else 0o644)
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return target, f"sha256={digest}", str(len(content))
