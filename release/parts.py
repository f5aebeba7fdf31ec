"""The folder, version and time of a release, the files of its sources, and the error of a part that cannot be made."""

import json
import os
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_OLDEST = 315_532_800
"""1980-01-01 as Unix time: no earlier time can be stored in a wheel, which is a ZIP file."""


class NotMadeError(Exception):
    """This machine cannot make a part of the release. The text says what is missing, and the remedy."""


@dataclass(frozen=True, slots=True)
class Release:
    """The names and addresses of one release.

    `image`: the image's name in a registry, without a tag. `url`: the address of the folder from which users download
    the files. `homepage`: the page that krew shows. `mtime`: the time of every file in every archive, as Unix time.
    `commit`: the commit of the sources when the release began; "" if the checkout had local changes or there is no
    checkout.
    """

    folder: Path
    version: str
    mtime: int
    image: str = "phalanx"
    url: str = ""
    homepage: str = ""
    commit: str = ""

    def path(self, name: str) -> Path:
        """The path of a file of the release."""
        return self.folder / name

    def image_archive(self, architecture: str) -> Path:
        """The path of the image's archive for an architecture, as Go names it (amd64, arm64)."""
        return self.path(f"phalanx-{self.version}-linux-{architecture}.oci.tar")

    @property
    def chart(self) -> Path:
        """The path of the chart, as Helm packages it."""
        return self.path(f"phalanx-{self.version}.tgz")

    @property
    def wheel(self) -> Path:
        """The path of the wheel."""
        return self.path(f"phalanx-{self.version}-py3-none-any.whl")


def version() -> str:
    """Return the version in pyproject.toml."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def source_time() -> int:
    """Return the time of all files: `SOURCE_DATE_EPOCH` if it is set, else the time of the checkout's last commit.

    Without both, as in an unpacked archive of the sources, the time is the first day of 1980. `SOURCE_DATE_EPOCH` is a
    convention of reproducible-builds.org.
    """
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return int(given or git("log", "-1", "--format=%ct") or _OLDEST)


def source_commit() -> str:
    """Return the commit of the checkout; "" if the checkout has local changes or there is no checkout."""
    return "" if git("status", "--porcelain") else git("rev-parse", "HEAD")


def git(*arguments: str) -> str:
    """Return the output of a git command in the checkout. "" if there is no git, or no checkout."""
    try:
        answer = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""


def sources(*folders: str) -> dict[str, Path]:
    """Return the files of the checkout, or of some of its folders, by path. Files that git ignores are left out.

    Without git, the result is all files outside the folders in `_BUILT`, which hold the results of builds.
    """
    listed = git("ls-files", "-co", "--exclude-standard", "--", *folders)
    if listed:
        found = listed.splitlines()
    else:
        starts = [ROOT / each for each in folders] or [ROOT]
        paths = (path for start in starts for path in start.rglob("*"))
        found = [str(path.relative_to(ROOT)) for path in paths if not _BUILT & set(path.relative_to(ROOT).parts)]
    return {name: ROOT / name for name in sorted(found) if (ROOT / name).is_file()}


_BUILT = {"__pycache__", ".venv", ".git", "node_modules", "dist", "build", "phalanx.egg-info"}


def read_json(path: Path) -> Any:
    """Return the value in a JSON file."""
    return json.loads(path.read_text())
