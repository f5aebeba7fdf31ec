"""What the doctor says of one thing that was looked at."""

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: how it is, and what to do where it is not well."""

    severity: Severity
    subject: str
    text: str
    remedy: str = ""
    fix: tuple[str, ...] = ()
    """Commands that put it right, where commands can; words in capitals are for the reader to fill in."""
