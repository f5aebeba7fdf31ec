"""Give this folder the fixtures of `controller_fixtures.py`: mypy cannot read two modules named `conftest`."""

from controller_fixtures import leader, scene

__all__ = ["leader", "scene"]
