"""The README is true: its commands run, its folders exist, and its example output is the real output."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text()

BLOCKS = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
COMMANDS = [line.split("#")[0].strip() for block in BLOCKS for line in block.splitlines() if line.strip()]
SOLVES = [each for each in COMMANDS if each.startswith("phalanx solve")]
TARGETS = [each.split()[1] for each in COMMANDS if each.startswith("make ")]


def phalanx(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line from the checkout."""
    program = [sys.executable, "-c", "from cli.main import main; main()", *arguments]
    return subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.thorough
@pytest.mark.parametrize("command", SOLVES)
def test_every_dry_run_of_the_readme_places_its_gangs(command: str) -> None:
    answer = phalanx(*command.split()[1:])
    assert (answer.returncode, answer.stderr) == (0, "")


def test_the_example_output_is_what_comes_out() -> None:
    shown = re.search(r"```\n(default/high-priority-training.*?)```", README, re.DOTALL)
    assert shown is not None
    answer = phalanx("solve", "-f", "examples/koordinator").stdout
    assert shown[1].splitlines()[1] in answer.splitlines()
    assert answer.startswith(shown[1].splitlines()[0])


@pytest.mark.parametrize("target", TARGETS)
def test_every_make_target_of_the_readme_exists(target: str) -> None:
    assert re.search(rf"^{target}:.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("folder", re.findall(r"`(\w+)/`", README))
def test_every_folder_of_the_readme_exists(folder: str) -> None:
    assert (ROOT / folder).is_dir()


def test_ci_runs_the_readmes_test_command() -> None:
    assert "make test" in COMMANDS
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == "exec make test"
