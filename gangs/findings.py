"""Collects what is wrong with a request, and what is worth a warning, while it is read."""

from collections.abc import Iterable

from gangs.model import Advice, Fault, ObjectRef


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


def to_be_put_right(faults: Iterable[Fault]) -> tuple[str, ...]:
    """What a gang waits for that stays one though this is wrong with it (`gangs.held_nodes.stays_charged`)."""
    return tuple(f"{each.object} to be put right ({each.field}: {each.problem}; {each.remedy})" for each in faults)
