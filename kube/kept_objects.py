"""Objects of a watch cache, or of an admission review, that remember what was computed from them.

Many functions read the same object again and again: each dialect reads a workload's metadata and pod templates, for
every pod of the gang that changes. An object of a watch cache never changes: a newer version of it is a new object. The
reviewed object does not change during its review. So the result of such a function is computed once and kept with the
object.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

Value = TypeVar("Value")


class KeptObject(dict[str, Any]):
    """An object of a watch cache or of a review, as decoded from JSON. No code may change the object.

    A copy, such as `{**object}`, is a plain dict: no results are kept with it, so it may be changed.
    """

    __slots__ = ("computed",)

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        super().__init__(manifest)
        self.computed: dict[Callable[..., Any], Any] = {}
        """By function (`computed_once`): its result for this object."""


def kept_object(manifest: Mapping[str, Any]) -> KeptObject:
    """Return the object as a `KeptObject`. A `KeptObject` is returned unchanged, with what was computed from it."""
    return manifest if type(manifest) is KeptObject else KeptObject(manifest)


def computed_once(function: Callable[[Mapping[str, Any]], Value]) -> Callable[[Mapping[str, Any]], Value]:
    """Return the function with results that are kept with each `KeptObject`. For any other mapping, the function is
    called each time.

    The function must depend on its argument only, and its callers must not change the result. If the function raises an
    exception, nothing is kept.
    """

    @wraps(function)
    def kept(manifest: Mapping[str, Any]) -> Value:
        if type(manifest) is not KeptObject:
            return function(manifest)
        try:
            found: Value = manifest.computed[function]
        except KeyError:
            found = manifest.computed[function] = function(manifest)
        return found

    return kept
