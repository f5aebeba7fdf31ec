"""GangGroups across namespaces: units join only if all of them list each other and their namespaces share groups.

A unit that lists a gang of another namespace waits until that gang lists the same gangs and both namespaces share their
groups. The unit reports what it waits for. Until then, the listed gang is read as if no other namespace listed it
(docs/decisions/0013).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from gangs.koordinator import keys
from gangs.koordinator.units import Unit
from gangs.model import GangKey
from kube.keys import SHARES_GROUPS_WITH

Shares = Callable[[str, str], bool]
"""Whether a namespace lets gangs of another one join its groups."""


def agreed(units: Mapping[GangKey, Unit], shares: Shares) -> dict[GangKey, Unit]:
    """Return the units. Units that list gangs of other namespaces without agreement are grouped only with their own
    namespace.
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
    """The units of a group by their namespaces; those of each wait for those of the others to be put right."""
    spaces = sorted({unit.key.namespace for unit in group})
    if len(spaces) == 1:
        return [list(group)]
    return [[_alone(unit, _discord(unit, group)) for unit in group if unit.key.namespace == each] for each in spaces]


def _agrees(listed: frozenset[GangKey], units: Mapping[GangKey, Unit], shares: Shares) -> bool:
    """Whether all units of a list exist, list the same gangs, and may join each other."""
    spaces = {each.namespace for each in listed}
    return all(each in units and units[each].listed == listed for each in listed) and all(
        shares(one, other) for one in spaces for other in spaces
    )


def _lacking(unit: Unit, shares: Shares) -> Iterable[str]:
    """Yield what a unit waits for before it joins its group.

    If a namespace does not share its groups with the unit's namespace, the text does not reveal which gangs it has.
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
    """The unit with the others of its namespace alone."""
    own = frozenset(each for each in unit.groups if each.namespace == unit.key.namespace)
    return replace(unit, groups=own | {unit.key}, lacks=tuple(dict.fromkeys(lacking)))
