"""Conditions in a status, each with the time at which its status last changed."""

from collections.abc import Iterable, Mapping
from typing import Any


def kept_conditions(
    conditions: Iterable[dict[str, Any]], before: Iterable[Mapping[str, Any]], now: str, generation: int | None
) -> list[dict[str, Any]]:
    """Return the conditions with the time of their last transition: `now` if their status has changed, else as before.

    :param now: RFC 3339.
    :param generation: the object's generation, which is written to each condition; None writes none.
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
