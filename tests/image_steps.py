"""Runs the Dockerfile's steps without a container runtime, in a directory of their own.

Paths of the image become paths below that directory. The base image, its layers and the read-only root file system are
not tested this way. `image_bundle` tests the built image.
"""

import fnmatch
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from image_bundle import ACCOUNT

ROOT = Path(__file__).parents[1]
ABSOLUTE = re.compile(r"(?<![\w./-])/(?=(?:venv|source|build|wheels)\b)")
"""The directories that the steps create. All other directories belong to the base image."""
ABOUT_THE_BASE = ("ARG", "FROM", "WORKDIR")


@dataclass
class Image:
    """The result of the steps: files below `root`, environment, user and entry point."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    user: int = 0
    entry_point: list[str] = field(default_factory=list)

    def inside(self, text: str) -> str:
        """Return the text with each path of the image replaced by its path below `root`."""
        return ABSOLUTE.sub(f"{self.root}/", text)

    def added(self) -> set[str]:
        """Return the top-level folders that the image adds to its base image."""
        return {each.name for each in self.root.iterdir()}

    def command(
        self,
        name: str,  # noqa: ARG002 - of the container; there is none
        pod: Mapping[str, Any],
        arguments: Sequence[str],
        folders: Mapping[str, Path],
        variables: Sequence[str] = (),
        program: Sequence[str] = (),
    ) -> list[str]:
        """Return the command that runs the pod's container, with the parameters of `image_bundle.Bundle.command`.

        The folders are not mounted: the arguments name them instead. The command runs as the pod's user if the current
        user is root and every user may reach the Python interpreter. Otherwise it runs as the current user.
        """
        path = self.root / "venv" / "bin"
        wanted = pod["securityContext"]["runAsUser"]
        becomes = os.geteuid() == 0 and _open_to_all(path / "python")
        user = ["setpriv", f"--reuid={wanted}", f"--regid={wanted}", "--clear-groups"] if becomes else []
        here = [_replaced(each, folders) for each in arguments]
        if (config := folders[ACCOUNT] / "kubeconfig").exists():
            here.append(f"--kubeconfig={config}")
        first, *rest = program or self.entry_point
        given = [f"PATH={path}:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1", *variables]
        return [*user, "env", "-i", *given, str(path / first), *rest, *here]


def _replaced(argument: str, folders: Mapping[str, Path]) -> str:
    for target, folder in folders.items():
        argument = argument.replace(target, str(folder))
    return argument


def _open_to_all(path: Path) -> bool:
    folders = path.resolve().parents
    return all(each.stat().st_mode & stat.S_IXOTH for each in folders)


def build(root: Path) -> Image:
    """Run every step of the Dockerfile. Raises `ValueError` for an instruction that this module does not implement."""
    image = Image(root)
    for name, rest in instructions((ROOT / "Dockerfile").read_text()):
        if name == "RUN":
            run(image, rest)
        elif name == "COPY":
            copy(image, rest.split())
        elif name not in ABOUT_THE_BASE:
            configure(image, name, rest)
    return image


def configure(image: Image, name: str, rest: str) -> None:
    """Apply an instruction that changes no file: `ENV`, `USER` or `ENTRYPOINT`. Raises `ValueError` for others."""
    match name:
        case "ENV":
            image.environment |= dict(each.split("=", 1) for each in rest.split())
        case "USER":
            image.user = int(rest.partition(":")[0])
        case "ENTRYPOINT":
            image.entry_point = json.loads(rest)
        case _:
            raise ValueError(f"{name} {rest}")


def instructions(text: str) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile, each as its name and its arguments."""
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines]


def run(image: Image, command: str) -> None:
    """Run a command as a shell would, with the interpreter of these tests as the base image's."""
    tools = image.root / "base"
    if not tools.exists():
        subprocess.run([sys.executable, "-m", "venv", str(tools)], check=True)
    kept = {
        name: value for name, value in os.environ.items() if name.startswith(("PIP_", "HTTP", "http", "SSL", "no_"))
    }
    environment = {**kept, "PATH": f"{tools}/bin:/usr/bin:/bin", "HOME": str(image.root)}
    answer = subprocess.run(
        ["/bin/sh", "-ec", image.inside(command)],
        cwd=image.root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, f"{command}\n{answer.stdout}{answer.stderr}"


def copy(image: Image, paths: list[str]) -> None:
    """Run a `COPY` step.

    It copies the files of the checkout that .dockerignore does not exclude. With `--from`, it begins the last stage and
    keeps only the copied folder of the first stage.
    """
    *sources, target = paths
    if sources[0].startswith("--from="):
        _, source = sources
        keep_only(image, source, target)
        return
    folder = Path(image.inside(target))
    for relative in context():
        if sources == ["."] or str(relative) in sources:
            place = folder / (relative if sources == ["."] else relative.name)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / relative, place)


def context() -> list[Path]:
    """Return the files of the checkout that .dockerignore does not exclude. The last matching rule decides."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    files = listed.stdout.splitlines() if listed.returncode == 0 else _walked()
    rules = [line for line in (ROOT / ".dockerignore").read_text().split() if not line.startswith("#")]
    return [Path(file) for file in files if (ROOT / file).is_file() and not _ignored(file, rules)]


def _walked() -> list[str]:
    return [str(each.relative_to(ROOT)) for each in ROOT.rglob("*") if each.is_file() and ".venv" not in each.parts]


def _ignored(file: str, rules: list[str]) -> bool:
    verdict = False
    for rule in rules:
        pattern = rule.removeprefix("!").removeprefix("**/")
        parts = Path(file).parts
        within = any(fnmatch.fnmatch("/".join(parts[:end]), pattern) for end in range(1, len(parts) + 1))
        if within or (rule.startswith("**/") and any(fnmatch.fnmatch(part, pattern) for part in parts)):
            verdict = not rule.startswith("!")
    return verdict


def keep_only(image: Image, source: str, target: str) -> None:
    """Delete all folders of the first stage except `source`, which the last stage takes over at the same path."""
    assert source == target
    for each in image.root.iterdir():
        if each != Path(image.inside(source)):
            shutil.rmtree(each) if each.is_dir() else each.unlink()
