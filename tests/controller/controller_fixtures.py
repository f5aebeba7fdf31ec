"""Fixtures for tests of the controller on the local API server."""

from collections.abc import Iterator

import pytest
from controller_scene import Leader, Scene, furnished, leading


@pytest.fixture
def scene() -> Iterator[Scene]:
    """The cluster, without a controller."""
    with furnished() as made:
        yield made


@pytest.fixture
def leader(scene: Scene) -> Iterator[Leader]:
    """A controller leads."""
    with leading(scene) as made:
        yield made
