"""Give this folder the fixtures of `serving_fixtures.py`: mypy cannot read two modules named `conftest`."""

from serving_fixtures import mount, only_replica, plane, replica

__all__ = ["mount", "only_replica", "plane", "replica"]
