"""How Phalanx classifies each version of Kubernetes, and that the reference page agrees."""

from pathlib import Path

import pytest

from kube.versions import Holding, Version, holding, shortcoming, version_of

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "kubernetes-versions.md"


@pytest.mark.parametrize(
    ("text", "version", "held"),
    [
        ("v1.38.0-alpha.1", Version(1, 38), Holding.ALWAYS),
        ("v1.37.1", Version(1, 37), Holding.ALWAYS),
        ("v1.37.0-gke.1200", Version(1, 37), Holding.ALWAYS),
        ("v1.36.3", Version(1, 36), Holding.UNTIL_RESTART),
        ("v1.36.9+k3s1", Version(1, 36), Holding.UNTIL_RESTART),
        ("v1.35.4", Version(1, 35), Holding.UNKNOWN),
        ("v1.9.0", Version(1, 9), Holding.UNKNOWN),
        ("unversioned", None, Holding.UNKNOWN),
    ],
)
def test_a_server_is_known_by_its_git_version(text: str, version: Version | None, held: Holding) -> None:
    assert (version_of(text), holding(version_of(text))) == (version, held)
    assert (shortcoming(text) == "") == (held is Holding.ALWAYS)
    assert held is Holding.ALWAYS or text in shortcoming(text)


def test_what_is_said_of_it_fits_into_an_event() -> None:
    assert all(len(shortcoming(text).encode()) < 1024 for text in ("v1.36.3", "v1.20.0"))


@pytest.mark.parametrize("version", ["1.37", "1.36", "1.35"])
def test_the_page_has_a_row_for_each(version: str) -> None:
    held = holding(version_of(version))
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| {version}"))
    assert held.value in row
