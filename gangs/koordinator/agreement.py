"""GangGroups across namespaces, which need the agreement of each unit and each namespace.

A unit is one PodGroup, or one gang name on pods. A unit that lists a unit of another namespace waits until both list
the same units and both namespaces allow it by the annotation `phalanx.dev/shares-groups-with`. Until then, the listed
unit is not affected (docs/decisions/0013).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from gangs.koordinator import keys
from gangs.koordinator.units import Unit
from gangs.model import GangKey
from kube.keys import SHARES_GROUPS_WITH

Shares = Callable[[str, str], bool]
"""A function that returns whether the first namespace allows gangs of the second one in its groups."""


def agreed(units: Mapping[GangKey, Unit], shares: Shares) -> dict[GangKey, Unit]:
    """Return all units (PodGroups), with `groups` reduced for units that other namespaces have not agreed to join.

    Such a unit is grouped only with units of its own namespace, and `lacks` has what it waits for.

    :param shares: whether the first namespace allows gangs of the second one in its groups.
    """
    verdicts: dict[frozenset[GangKey], bool] = {}
    found = {}
    for key, unit in units.items():
        if all(each.namespace == key.namespace for each in unit.listed):
            found[key] = unit
            continue
        if unit.listed not in verdicts:
            verdicts[unit.listed] = _agrees(unit.listed, units, shares)
        joins = key in unit.listed and verdicts[unit.listed]
        found[key] = unit if joins else _alone(unit, _lacking(unit, shares))
    return found


def parted(group: Sequence[Unit]) -> list[list[Unit]]:
    """Divide the units (PodGroups) of a faulty GangGroup by namespace.

    If there are several namespaces, each part waits until the other parts have no faults.
    """
    spaces = sorted({unit.key.namespace for unit in group})
    if len(spaces) == 1:
        return [list(group)]
    return [[_alone(unit, _discord(unit, group)) for unit in group if unit.key.namespace == each] for each in spaces]


def _agrees(listed: frozenset[GangKey], units: Mapping[GangKey, Unit], shares: Shares) -> bool:
    """Whether all listed units (PodGroups) exist and list the same units, and all their namespaces allow each other."""
    spaces = {each.namespace for each in listed}
    return all(each in units and units[each].listed == listed for each in listed) and all(
        shares(one, other) for one in spaces for other in spaces
    )


def _lacking(unit: Unit, shares: Shares) -> Iterable[str]:
    """Yield what a unit (PodGroup) waits for before it is grouped with the units of other namespaces that it lists.

    If a namespace does not allow the unit's namespace, the text does not reveal which gangs exist there.
    """
    own = unit.key.namespace
    for each in sorted(unit.listed):
        if each.namespace == own:
            continue
        closed = [pair for pair in ((each.namespace, own), (own, each.namespace)) if not shares(*pair)]
        yield from (f"Namespace {one} to share its groups with {other} ({SHARES_GROUPS_WITH})" for one, other in closed)
        if not closed:
            yield f"{keys.POD_GROUP_KIND} {each} to list the same gangs"


def _discord(unit: Unit, group: Sequence[Unit]) -> Iterable[str]:
    others = (each.key for each in group if each.key.namespace != unit.key.namespace)
    return (f"{keys.POD_GROUP_KIND} {each}, with which it is grouped, to be valid together with it" for each in others)


def _alone(unit: Unit, lacking: Iterable[str]) -> Unit:
    """Return the unit (PodGroup), grouped only with units of its own namespace.

    :param lacking: what it waits for.
    """
    own = frozenset(each for each in unit.groups if each.namespace == unit.key.namespace)
    return replace(unit, groups=own | {unit.key}, lacks=tuple(dict.fromkeys(lacking)))
