"""The map of each system's document, `examples/<system>/README.md`: nothing of the document or folder is left out."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
STEPS: dict[str, list[str]] = yaml.safe_load((Path(__file__).parent / "document_steps.yaml").read_text())
READMES = sorted(EXAMPLES.glob("*/README.md"))
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
GIVEN = re.compile(r"-[fk] ?(?P<path>[\w./-]+)")


def table_of(readme: str) -> str:
    """The rows of its tables: the document's words, and what is done here."""
    return "\n".join(line for line in readme.splitlines() if line.startswith("|"))


def commands(readme: Path) -> Iterator[tuple[Path, str]]:
    """The commands in code blocks that read files, each with the folder that it is run in."""
    for block in BLOCK.findall(readme.read_text()):
        folder = readme.parent
        for line in block.splitlines():
            command = line.removeprefix("$ ").split("#")[0].strip()
            if command.startswith("cd "):
                folder = ROOT / command.removeprefix("cd ")
            elif re.match(r"(kubectl apply|phalanx solve|python) ", command):
                yield folder, command


@pytest.mark.parametrize("system", sorted(STEPS))
def test_the_map_has_every_step_of_the_document_in_its_order(system: str) -> None:
    text, at = table_of((EXAMPLES / system / "README.md").read_text()), 0
    for step in STEPS[system]:
        found = text.find(step, at)
        assert found >= 0, f"{step} does not stand in the map, or not in its place"
        at = found + len(step)


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.parent.name)
def test_every_file_that_a_command_names_is_there(readme: Path) -> None:
    for folder, command in commands(readme):
        for path in GIVEN.findall(command):
            places = (folder / path, ROOT / path)
            assert any(place.exists() for place in places), f"{command}: no {path}"


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.parent.name)
def test_every_manifest_of_the_folder_is_spoken_of(readme: Path) -> None:
    text, folder = readme.read_text(), readme.parent
    for path in sorted(folder.rglob("*.yaml")):
        name = path.relative_to(folder)
        known = f"{name}" in text or (name.parent != Path() and f"{name.parent}/" in text)
        assert known, f"{name} is not in {readme.relative_to(ROOT)}"


def test_every_folder_of_manifests_has_its_readme() -> None:
    folders = {path.relative_to(EXAMPLES).parts[0] for path in EXAMPLES.rglob("*.yaml")} - {"scenarios"}
    assert folders == {readme.parent.name for readme in READMES}
