"""Conditions as Kubernetes keeps them in a status: each with the time at which it last became true or false."""

from collections.abc import Iterable, Mapping
from typing import Any


def kept_conditions(
    conditions: Iterable[dict[str, Any]], before: Iterable[Mapping[str, Any]], now: str, generation: int | None
) -> list[dict[str, Any]]:
    """The conditions with the time of their last transition, which is not `now` where their status is as it was.

    :param now: RFC 3339.
    :param generation: of the object, to be written to each condition; None: none is.
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
