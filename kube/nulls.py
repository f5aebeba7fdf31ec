"""Removal of null fields, which the API server does not store."""

from collections.abc import Mapping
from typing import Any


def without_nulls(value: Any) -> Any:
    """Return the value without the fields that are null, at any depth. Null items of a list remain."""
    if value is None or isinstance(value, str | int):  # most values: the check for a Mapping is slow
        return value
    if isinstance(value, Mapping):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [without_nulls(each) for each in value]
    return value
