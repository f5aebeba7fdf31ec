"""The collector of faults and advice during the reading of gangs."""

from collections.abc import Iterable, Sequence

from gangs.model import Advice, Fault, Misplaced, ObjectRef

_MOST_SAID, _LONGEST = 5, 1000
"""The most faults in one gang's text, and the most characters of each."""


class Findings:
    """Faults and advice in the order in which they were found, each once."""

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
        """Report a fault: problem and remedy at `at`, a field path of the object `ref`."""
        self._faults[Fault(ref, at, problem, remedy)] = None

    def advise(self, ref: ObjectRef, at: str, text: str, awaited: str = "") -> None:
        """Report advice, which blocks nothing. `awaited`: what the object's gang waits for, if the advice says so."""
        self._advice[Advice(ref, at, text, awaited)] = None

    def misplaced(self, ref: ObjectRef, at: str, text: str) -> None:
        """Report a key that is not read at `at`. It blocks nothing in the cluster, and is a mistake in a file."""
        self._advice[Misplaced(ref, at, text)] = None

    def take(self, faults: Iterable[Fault], advice: Iterable[Advice] = ()) -> None:
        """Take over what another reader has found."""
        self._faults.update(dict.fromkeys(faults))
        self._advice.update(dict.fromkeys(advice))


def said_of(faults: Sequence[Fault]) -> str:
    """Return the faults on one line: the first ones, shortened, and the number of the others.

    The text is written on every member. It is limited because a thousand members may have a fault each, and a fault may
    quote user input of any length.
    """
    return "; ".join(_first(list(map(str, faults))))


def to_be_put_right(faults: Sequence[Fault]) -> tuple[str, ...]:
    """Return what a gang waits for if it stays a gang in spite of these faults (`gangs.held_nodes.stays_charged`)."""
    texts = [f"{each.object} to be put right ({each.field}: {each.problem}; {each.remedy})" for each in faults]
    return tuple(_first(texts))


def _first(texts: Sequence[str]) -> list[str]:
    short = [text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…" for text in texts[:_MOST_SAID]]
    return [*short, f"{len(texts) - _MOST_SAID} more like these"] if len(texts) > _MOST_SAID else short
