"""The workflows for a hosted CI run what a developer runs: `.ci/run`, and `make release` with variables that it has."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from release.parts import ROOT, Release

WORKFLOWS = ROOT / ".github" / "workflows"
MAKEFILE = (ROOT / "Makefile").read_text()


def workflow(name: str) -> dict[str, Any]:
    """The content of a workflow."""
    content: dict[str, Any] = yaml.safe_load((WORKFLOWS / name).read_text())
    return content


def commands(name: str) -> Iterator[str]:
    """The shell commands of a workflow's steps."""
    for job in workflow(name)["jobs"].values():
        yield from (step["run"] for step in job.get("steps", ()) if "run" in step)


def test_the_tests_are_those_of_ci() -> None:
    assert list(commands("test.yaml")) == [".ci/run"]
    assert workflow("release.yaml")["jobs"]["release"]["needs"] == "test"


@pytest.mark.parametrize("name", ["test.yaml", "release.yaml"])
def test_every_command_is_a_shells(name: str) -> None:
    for command in commands(name):
        answer = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stderr


def test_the_release_is_made_with_variables_that_the_makefile_reads() -> None:
    (made,) = [each for each in commands("release.yaml") if each.startswith("make release")]
    recipe = MAKEFILE.partition("\nrelease:")[2].partition("\n\n")[0]
    variables = re.findall(r"\b([A-Z]+)=", made)
    assert {"DIR", "IMAGE", "URL", "HOMEPAGE", "BUILDER"} == set(variables)
    assert [each for each in variables if f"$({each})" not in recipe] == []


def test_what_is_pushed_are_files_of_the_release() -> None:
    release = Release(Path("release"), "0.1.0", 0)
    (pushed,) = [each for each in commands("release.yaml") if "skopeo copy" in each]
    named = set(re.findall(r"oci-archive:([^\"]+)\"", pushed))
    expected = {release.image_archive("amd64").name, "phalanx-0.1.0-chart.oci.tar"}
    assert {each.replace("$version", "0.1.0").replace("$architecture", "amd64") for each in named} == expected


@pytest.mark.parametrize("name", ["test.yaml", "release.yaml"])
def test_a_workflow_has_the_rights_that_its_jobs_name_and_no_more(name: str) -> None:
    assert workflow(name)["permissions"] == {"contents": "read"}
