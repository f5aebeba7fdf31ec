"""In which order gangs are planned: the higher priority first, then the older, then by name."""

from collections.abc import Iterable

from gangs.model import Gang
from kube.names import natural_key

_YOUNGEST = "9999"
"""Later than any time of creation: of a gang that nothing in the cluster asks for yet."""


def in_order(gangs: Iterable[Gang]) -> list[Gang]:
    """Gangs that compete, first come the highest priority, then age, then the name. Expects known priorities."""

    def place(gang: Gang) -> tuple[int, str, object]:
        return -gang.priority, gang.created or _YOUNGEST, natural_key(str(gang.key))

    return sorted(gangs, key=place)
