"""The `lastTransitionTime` of conditions: it is kept while the condition's status stays the same."""

from collections.abc import Iterable, Mapping
from typing import Any


def kept_conditions(
    conditions: Iterable[dict[str, Any]], before: Iterable[Mapping[str, Any]], now: str, generation: int | None
) -> list[dict[str, Any]]:
    """Return the conditions, each with its `lastTransitionTime`.

    The time is `now` for a condition that is new or whose status has changed. Otherwise it is the time in `before`.

    :param before: the conditions in the object's present status.
    :param now: RFC 3339.
    :param generation: the value of `observedGeneration` in each condition; None leaves the field out.
    """
    old = {each.get("type"): each for each in before}
    kept = []
    for condition in conditions:
        was = old.get(condition["type"], {})
        same = was.get("status") == condition["status"]
        time = was["lastTransitionTime"] if same and was.get("lastTransitionTime") else now
        kept.append({**condition, "lastTransitionTime": time})
        if generation is not None:
            kept[-1]["observedGeneration"] = generation
    return kept
