"""What the pages show is what comes out: their commands, played; their manifests, as they are in the examples."""

import re
from pathlib import Path

import pytest
from page_commands import DOCS, ROOT, Shell, like, pages, play

PLAYED_FOLDERS = ("start", "concepts", "coming-from", "how-to")
NOT_PLAYED = {
    "git": "clones from elsewhere",
    "make": "tests/docs/test_readme.py: the target exists",
    "source": "of the shell that is asked",
    "kind": "needs Docker, which is not where the tests run: docs/start/with-kind.md says so",
    "kubectl": "installs what tests/system/test_install.py installs, or waits for what nothing here runs",
    "phalanx": "builds and starts a control plane: tests/system/test_scenarios.py",
}
"""Programs in blocks of `sh`, and why they are not run from there."""


@pytest.mark.thorough
@pytest.mark.parametrize("page", pages(on_a_cluster=False), ids=lambda page: page.stem)
def test_the_commands_of_a_page_print_what_it_says(page: Path, tmp_path: Path) -> None:
    assert "\n".join(play(page, Shell(tmp_path, {}))) == ""


def written() -> list[Path]:
    """The pages that tell people what to type."""
    return [page for folder in PLAYED_FOLDERS for page in sorted((DOCS / folder).glob("*.md"))]


@pytest.mark.parametrize("page", written(), ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_what_is_not_played_is_known(page: Path) -> None:
    for block in re.findall(r"^```sh\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            assert line.split()[0] in NOT_PLAYED, f"{line}: play it, in a block of console"
            for path in re.findall(r"(?:-k|-f|--config) ((?:manifests|examples|charts)[\w/.-]*)", line):
                assert (ROOT / path).exists(), line
            for target in re.findall(r"^make (\w+)", line):
                assert re.search(rf"^{target}:.*##", (ROOT / "Makefile").read_text(), re.MULTILINE), line


@pytest.mark.parametrize("page", written(), ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_every_manifest_that_is_shown_is_the_file(page: Path) -> None:
    shown = re.findall(r'^```yaml title="([^"]+)"\n(.*?)^```$', page.read_text(), re.DOTALL | re.MULTILINE)
    for path, text in shown:
        assert text in (ROOT / path).read_text(), f"{path} has no such lines"


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("a b\n", "a    b  \n", True),
        ("a\n", "a\nb\n", False),
        ("a … c\n", "a 12 s c\n", True),
        ("a … c\n", "a 12 s d\n", False),
        ("…\nb\n", "b\n", True),
        ("…\nb\n", "a\na\nb\n", True),
        ("…\nb\n", "a\na\n", False),
        ("", "\n", True),
        ("", "a\n", False),
    ],
)
def test_what_stands_for_anything_stands_for_that_alone(expected: str, printed: str, same: bool) -> None:  # noqa: FBT001 -- a column
    assert like(expected, printed) is same


def test_a_command_that_fails_has_to_be_said_to(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    (tmp_path / "shell").mkdir()
    page.write_text("```console\n$ exit 3\n```\n\n```console\n$ exit 3\n$ echo $?\n3\n```\n")
    (wrong,) = play(page, Shell(tmp_path / "shell", {}))
    assert "fails with 3" in wrong
