"""`Trouble`: why the objects of a watched resource are missing from the caches."""

from dataclasses import dataclass
from enum import Enum


class TroubleReason(Enum):
    """Why objects are missing. The value is the reason of a WorkloadKind's condition."""

    FORBIDDEN = "Forbidden"
    NOT_SERVED = "NotServed"
    WRONG_KIND = "WrongKind"
    """The API server serves objects of another kind at the path."""
    NOT_NAMESPACED = "NotNamespaced"
    """The API server serves cluster-scoped objects at the path."""
    UNREADABLE = "Unreadable"
    """Any other failure of the API server, the network or Phalanx."""
    SOME_LEFT_OUT = "SomeLeftOut"
    """Phalanx fails to read some objects. It reads the other objects of the kind."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why objects are missing. `text`: the predicate of a sentence about the objects, or a server's message."""

    reason: TroubleReason
    text: str
