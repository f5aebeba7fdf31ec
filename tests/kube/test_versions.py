"""How Phalanx classifies each version of Kubernetes, and that the reference page agrees."""

from pathlib import Path
from typing import Any

import pytest

from kube.versions import Holding, Version, forgets, holding, scheduler_version, shortcoming, version_of, way_of_holding

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "kubernetes-versions.md"


@pytest.mark.parametrize(
    ("text", "version", "held"),
    [
        ("v1.38.0-alpha.1", Version(1, 38), Holding.ALWAYS),
        ("v1.37.1", Version(1, 37), Holding.ALWAYS),
        ("v1.37.0-gke.1200", Version(1, 37), Holding.ALWAYS),
        ("v1.36.3", Version(1, 36), Holding.UNTIL_RESTART),
        ("v1.36.9+k3s1", Version(1, 36), Holding.UNTIL_RESTART),
        ("v1.33.13", Version(1, 33), Holding.UNTIL_RESTART),
        ("v1.32.4", Version(1, 32), Holding.UNKNOWN),
        ("v1.9.0", Version(1, 9), Holding.UNKNOWN),
        ("unversioned", None, Holding.UNKNOWN),
    ],
)
def test_a_server_is_known_by_its_git_version(text: str, version: Version | None, held: Holding) -> None:
    found = version_of(text)
    assert (found, holding(found)) == (version, held)
    assert forgets(found) == (held is not Holding.ALWAYS)
    assert bool(shortcoming(found)) == (held is Holding.UNKNOWN)
    assert way_of_holding(found)


def test_what_is_said_of_it_fits_into_an_event() -> None:
    assert all(len(shortcoming(each).encode()) < 1024 for each in (None, Version(1, 20)))


def scheduler(*images: str) -> dict[str, Any]:
    """A pod with containers of these images."""
    return {"spec": {"containers": [{"image": each} for each in images]}}


@pytest.mark.parametrize(
    ("api_server", "pods", "version"),
    [
        ("v1.37.1", [], Version(1, 37)),
        ("v1.37.1", [scheduler("registry.k8s.io/kube-scheduler:v1.37.1")], Version(1, 37)),
        ("v1.37.1", [scheduler("registry.k8s.io/kube-scheduler:v1.36.3")], Version(1, 36)),
        ("v1.37.1", [scheduler("r:5000/s:v1.37.0"), scheduler("r:5000/s:v1.36.3@sha256:ab")], Version(1, 36)),
        ("v1.37.1", [scheduler("r:5000/s@sha256:ab", "logs:latest"), {}], Version(1, 37)),
        ("unversioned", [scheduler("s:v1.37.1")], None),
    ],
)
def test_the_oldest_scheduler_counts_while_a_cluster_is_upgraded(
    api_server: str, pods: list[dict[str, Any]], version: Version | None
) -> None:
    assert scheduler_version(api_server, pods) == version


@pytest.mark.parametrize("version", ["1.37", "1.36", "1.33"])
def test_the_page_has_a_row_for_each(version: str) -> None:
    held = holding(version_of(version))
    row = next(
        line for line in PAGE.read_text().splitlines() if line.startswith("| ") and version in line.split("|")[1]
    )
    assert held.value in row
