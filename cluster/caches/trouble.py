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
    """Why the objects of a watched resource are missing from the caches.

    `text`: for the reasons UNREADABLE and FORBIDDEN, the error message. For other reasons, the end of a sentence that
    begins with the resource, such as "is not served by this API server".
    """

    reason: TroubleReason
    text: str
