"""The order in which gangs are planned: the higher priority first, then the older gang, then by name."""

from collections.abc import Iterable

from gangs.model import Gang
from kube.names import natural_key

_YOUNGEST = "9999"
"""A text that sorts after every creation time, for a gang that no object in the cluster asks for yet."""


def in_order(gangs: Iterable[Gang]) -> list[Gang]:
    """Return the gangs by descending priority, then by age, then by name. Each gang must have its priority set
    already.
    """

    def place(gang: Gang) -> tuple[int, str, object]:
        return -gang.priority, gang.created or _YOUNGEST, natural_key(str(gang.key))

    return sorted(gangs, key=place)
