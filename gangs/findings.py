"""Collects what is wrong with a request, and what is worth a warning, while it is read."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from gangs.model import Advice, Fault, ObjectRef


@dataclass(slots=True)
class Findings:
    """Faults and advice in the order in which they were found, each once."""

    faults: list[Fault] = field(default_factory=list)
    advice: list[Advice] = field(default_factory=list)

    def fault(self, ref: ObjectRef, at: str, problem: str, remedy: str) -> None:
        """Note that `at`, a field path of the object `ref`, is wrong, and how to mend it."""
        self._add_fault(Fault(ref, at, problem, remedy))

    def advise(self, ref: ObjectRef, at: str, text: str) -> None:
        """Note something that stops nothing."""
        self._add_advice(Advice(ref, at, text))

    def take(self, faults: Iterable[Fault], advice: Iterable[Advice] = ()) -> None:
        """Take over what another reader has found."""
        for fault in faults:
            self._add_fault(fault)
        for each in advice:
            self._add_advice(each)

    def _add_fault(self, fault: Fault) -> None:
        if fault not in self.faults:
            self.faults.append(fault)

    def _add_advice(self, advice: Advice) -> None:
        if advice not in self.advice:
            self.advice.append(advice)
