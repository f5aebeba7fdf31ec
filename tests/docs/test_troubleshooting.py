"""The headings of the troubleshooting page are messages of the code, or messages that another test expects."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache

import pytest
from page_commands import DOCS, ROOT

PACKAGES = ("certs", "cli", "cluster", "controller", "gangs", "kube", "planning", "webhook")
EXPECTING = ("tests/cli", "tests/faults", "tests/planning", "tests/system")
HEADINGS = re.findall(r"^### `(.*)`$", (DOCS / "troubleshooting.md").read_text(), re.MULTILINE)
ELSEWHERE = {'failed calling webhook "pods.phalanx.dev"': "manifests/webhook/mutating.yaml"}
"""By message of the API server that contains a name of Phalanx: the file that defines this name."""
_SHORTEST = 8
"""The least length of a heading's longest part: two messages do not share so many letters by accident."""


@cache
def texts() -> frozenset[str]:
    """All texts of the code, and what other tests expect."""
    return frozenset(_texts())


def _texts() -> Iterator[str]:
    """Yield all string literals of the code, and the texts of `Message.of`. `…` replaces each formatted value."""
    for package in (*PACKAGES, *EXPECTING):
        for path in (ROOT / package).rglob("*.py"):
            for each in ast.walk(ast.parse(path.read_text())):
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    yield each.value
                elif isinstance(each, ast.JoinedStr):
                    yield _joined(each.values)
                elif isinstance(each, ast.Call) and ast.unparse(each.func) == "Message.of":
                    yield _joined(each.args)


def _joined(parts: Iterable[ast.expr]) -> str:
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in parts)


def said(heading: str) -> bool:
    """Whether one text of the code has all the heading's words in order. `…` in the heading stands for names."""
    parts = [re.escape(part.strip()) for part in heading.split("…") if len(part.strip()) > 1]
    pattern = re.compile(".*".join(parts), re.DOTALL)
    return any(pattern.search(text) for text in texts())


@pytest.mark.parametrize("heading", HEADINGS)
def test_every_heading_is_a_message_of_the_code(heading: str) -> None:
    assert max(len(part) for part in heading.split("…")) >= _SHORTEST
    if heading in ELSEWHERE:
        name = heading.partition('"')[2].rstrip('"')
        assert f"name: {name}" in (ROOT / ELSEWHERE[heading]).read_text()
    else:
        assert said(heading)


def test_a_message_that_nobody_says_is_found() -> None:
    assert len(HEADINGS) > 20
    assert not said("waits for a … that nobody has written")
