"""Collects what is wrong with a request, and what is worth a warning, while it is read."""

from collections.abc import Iterable, Sequence

from gangs.model import Advice, Fault, ObjectRef

_MOST_SAID, _LONGEST = 5, 1000
"""Faults that are said of one gang, and characters of each."""


class Findings:
    """Faults and advice in the order in which they were found, each once."""

    def __init__(self) -> None:
        self._faults: dict[Fault, None] = {}
        self._advice: dict[Advice, None] = {}

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What is wrong."""
        return tuple(self._faults)

    @property
    def advice(self) -> tuple[Advice, ...]:
        """What is worth a warning."""
        return tuple(self._advice)

    def fault(self, ref: ObjectRef, at: str, problem: str, remedy: str) -> None:
        """Note that `at`, a field path of the object `ref`, is wrong, and how to mend it."""
        self._faults[Fault(ref, at, problem, remedy)] = None

    def advise(self, ref: ObjectRef, at: str, text: str, awaited: str = "") -> None:
        """Note something that stops nothing; `awaited`: what the object's gang waits for, if that is it."""
        self._advice[Advice(ref, at, text, awaited)] = None

    def take(self, faults: Iterable[Fault], advice: Iterable[Advice] = ()) -> None:
        """Take over what another reader has found."""
        self._faults.update(dict.fromkeys(faults))
        self._advice.update(dict.fromkeys(advice))


def said_of(faults: Sequence[Fault]) -> str:
    """What is wrong, on one line: the first faults, and how many more there are. It is written on every member, and a
    thousand members may have a fault each, which may quote what somebody wrote at any length.
    """
    return "; ".join(_first(list(map(str, faults))))


def to_be_put_right(faults: Sequence[Fault]) -> tuple[str, ...]:
    """What a gang waits for that stays one though this is wrong with it (`gangs.held_nodes.stays_charged`)."""
    texts = [f"{each.object} to be put right ({each.field}: {each.problem}; {each.remedy})" for each in faults]
    return tuple(_first(texts))


def _first(texts: Sequence[str]) -> list[str]:
    short = [text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…" for text in texts[:_MOST_SAID]]
    return [*short, f"{len(texts) - _MOST_SAID} more like these"] if len(texts) > _MOST_SAID else short
