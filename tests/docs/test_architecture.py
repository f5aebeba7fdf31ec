"""The pages for those who carry on stay true: rooms as the code has them, paths that exist."""

import re

import pytest
from rooms import PAGE, ROOT, drawn

PAGES = ("docs/architecture.md", "docs/glossary.md", "CONTRIBUTING.md")
MADE = "dist/"
"""What `make` writes is not there in a fresh checkout."""


def test_the_rooms_are_those_of_the_code() -> None:
    assert drawn() in PAGE.read_text(), "run: python tests/docs/rooms.py"


@pytest.mark.parametrize("name", PAGES)
def test_every_path_that_is_named_exists(name: str) -> None:
    named = re.findall(r"`((?:[\w.-]+/)+[\w.-]*)`", (ROOT / name).read_text())
    assert named
    kept = [path for path in named if not path.startswith(MADE)]
    assert not [path for path in kept if not (ROOT / path).exists()]


def test_every_question_has_one_answer() -> None:
    questions = re.findall(r"^\| (\S[^|]*\?) \|", PAGE.read_text(), re.MULTILINE)
    assert len(questions) == len(set(questions)) >= 30
