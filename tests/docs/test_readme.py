"""What the README says is true: its commands run, its folders exist, its example output is what comes out."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from controller.defaults import LEASE_SECONDS

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


def test_the_window_that_the_readme_promises_is_the_usual_lease_and_two_seconds() -> None:
    promise = " ".join(re.findall(r"- \*\*All or none\.\*\*.*?(?=\n- \*\*)", README, re.DOTALL)[0].split())
    assert f"within the lease, {LEASE_SECONDS:g} s, and reaches the same end" in promise
    assert "runs in part for at most the lease and 2 s" in promise
    longest = re.search(r"kept to it, ([\d.]+) s at most", promise)
    assert longest is not None
    assert float(longest[1]) <= LEASE_SECONDS + 2


@pytest.mark.parametrize(
    ("page", "said"),
    [("operations.md", "its lease, {} s (`--lease-seconds`)"), ("how-to/run-ha.md", "its lease, {} s;")],
)
def test_the_pages_name_the_usual_lease(page: str, said: str) -> None:
    assert said.format(f"{LEASE_SECONDS:g}") in (ROOT / "docs" / page).read_text()


def test_ci_runs_the_readmes_test_command() -> None:
    assert "make test" in COMMANDS
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == "exec make test"
