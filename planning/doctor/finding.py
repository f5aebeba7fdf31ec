"""`Finding`: the result of `phalanx doctor` for one checked subject."""

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """The severity of a finding: nothing to do, should be corrected, or gangs are affected."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of checking one subject: its severity, a description, and the remedy if something is wrong."""

    severity: Severity
    subject: str
    text: str
    remedy: str = ""
    fix: tuple[str, ...] = ()
    """Commands that fix the fault, if commands can; the reader replaces words in capitals."""
