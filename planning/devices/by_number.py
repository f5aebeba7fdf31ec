"""Claims for which only numbers of devices matter, as resources of the solver's problem.

Members ask for numbers of devices of several device kinds, and a device may be of several kinds. Hall's theorem says
when a node can serve given numbers at once. For each set of kinds, the members must not ask for more devices than there
are devices of any of these kinds. So each such set is a resource. A set is left out if other sets imply its limit.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from cluster.devices.inventory import Flags
from planning.devices.demands import Kind, NotPlannedError, PodDemand

MOST_KINDS = 6
"""The most device kinds that one problem may have, because so many kinds already have 63 sets."""


def numbers_of(demand: PodDemand) -> dict[Kind, int]:
    """Return how many devices of each device kind the pod needs. Expects claims in which only numbers matter."""
    found: dict[Kind, int] = {}
    for claim in demand.claims:
        for (request,) in claim.asked.requests:
            found[request.kind] = found.get(request.kind, 0) + request.count
    return found


def limiting_sets(accepted: Sequence[Flags]) -> list[tuple[int, ...]]:
    """Return the sets of device kinds whose limits imply the limits of all sets. A set is given by the positions of its
    kinds in `accepted`.

    `accepted`: for each device kind, the contents that it accepts. A set is left out in two cases:

    - A kind outside the set accepts only contents that some kind of the set accepts. The larger set has the same limit.
    - The set has two parts, and no content is accepted in both. The limits of the parts imply the limit of the set.

    Raises `NotPlannedError` if there are too many kinds.
    """
    if len(accepted) > MOST_KINDS:
        raise NotPlannedError(f"more than {MOST_KINDS} kinds of devices in one gang")
    places = range(len(accepted))
    found: list[tuple[int, ...]] = [(one,) for one in places if not accepted[one].any()]
    some = [one for one in places if accepted[one].any()]
    for size in range(1, len(some) + 1):
        for one_set in combinations(some, size):
            union = np.logical_or.reduce([accepted[one] for one in one_set])
            others = (one for one in some if one not in one_set)
            if not any((accepted[one] <= union).all() for one in others) and _connected(one_set, accepted):
                found.append(one_set)
    return found


def _connected(one_set: Sequence[int], accepted: Sequence[Flags]) -> bool:
    """Return whether the device kinds of the set are connected. Two kinds are connected if both accept the same
    content, or through other kinds of the set.
    """
    reached, rest = accepted[one_set[0]], list(one_set[1:])
    while near := [one for one in rest if (accepted[one] & reached).any()]:
        reached = np.logical_or.reduce([reached, *[accepted[one] for one in near]])
        rest = [one for one in rest if one not in near]
    return not rest
