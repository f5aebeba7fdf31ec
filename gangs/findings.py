"""The collector of faults and advice while dialects read objects, and their texts for statuses."""

from collections.abc import Iterable, Sequence

from gangs.model import Advice, Fault, Misplaced, ObjectRef

_MOST_SAID, _LONGEST = 5, 1000
"""The largest number of faults in the text about one gang, and the largest number of characters of each."""


class Findings:
    """Faults and advice in the order in which they were reported. A fault or advice that is reported again is kept
    once.
    """

    def __init__(self) -> None:
        self._faults: dict[Fault, None] = {}
        self._advice: dict[Advice, None] = {}

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults, in the order in which they were reported."""
        return tuple(self._faults)

    @property
    def advice(self) -> tuple[Advice, ...]:
        """The advice, in the order in which it was reported."""
        return tuple(self._advice)

    def fault(self, ref: ObjectRef, at: str, problem: str, remedy: str) -> None:
        """Report a fault of the object `ref`. `at`: the path of the field."""
        self._faults[Fault(ref, at, problem, remedy)] = None

    def advise(self, ref: ObjectRef, at: str, text: str, awaited: str = "") -> None:
        """Report advice on the object `ref`, which blocks nothing. `at`: the path of the field.

        `awaited`: the entry of `Gang.waiting_for` that the advice is about; "" for other advice.
        """
        self._advice[Advice(ref, at, text, awaited)] = None

    def misplaced(self, ref: ObjectRef, at: str, text: str) -> None:
        """Report a key in a place (`at`) where Phalanx does not read it (`gangs.model.Misplaced`)."""
        self._advice[Misplaced(ref, at, text)] = None

    def take(self, faults: Iterable[Fault], advice: Iterable[Advice] = ()) -> None:
        """Add the given faults and advice, each of which is kept once."""
        self._faults.update(dict.fromkeys(faults))
        self._advice.update(dict.fromkeys(advice))


def said_of(faults: Sequence[Fault]) -> str:
    """Return the text about the faults of a gang, on one line: the first few faults (`_MOST_SAID`), and the number of
    the others.

    The text is limited because it is written on every member. A thousand members may have a fault each, and a fault may
    quote user input of any length.
    """
    return "; ".join(_first(list(map(str, faults))))


def waits_for_corrections(faults: Sequence[Fault]) -> tuple[str, ...]:
    """Return the entries of `Gang.waiting_for` for a gang that has these faults but is still a gang.

    Such a gang has running members that use quota (`gangs.held_nodes.stays_charged`).
    """
    texts = [f"{each.object} to be corrected ({each.field}: {each.problem}; {each.remedy})" for each in faults]
    return tuple(_first(texts))


def _first(texts: Sequence[str]) -> list[str]:
    short = [text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…" for text in texts[:_MOST_SAID]]
    return [*short, f"{len(texts) - _MOST_SAID} more like these"] if len(texts) > _MOST_SAID else short
