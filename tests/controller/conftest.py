"""Fixtures for tests of the controller on the local API server."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from controller_scene import Leader, Scene, furnished, leading


@pytest.fixture
def scene() -> Iterator[Scene]:
    """The cluster, without a controller."""
    with furnished() as made:
        yield made


@pytest.fixture
def leader(scene: Scene, tmp_path: Path) -> Iterator[Leader]:
    """A controller leads."""
    with leading(scene, tmp_path) as made:
        yield made
