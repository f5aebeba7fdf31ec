"""Null fields: the API server stores none, whether in an object or in a merge patch."""

from collections.abc import Mapping
from typing import Any


def without_nulls(value: Any) -> Any:
    """Return the value without null fields, at any depth. The items of a list keep their places."""
    if isinstance(value, Mapping):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [without_nulls(each) for each in value]
    return value
