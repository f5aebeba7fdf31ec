"""How long the scheduler of a Kubernetes version reserves capacity for a gated pod that has `nominatedNodeName`.

Sources: the kube-scheduler of 1.36.3 and 1.37.1 (`pkg/scheduler/backend/queue`), CHANGELOG-1.37, KEP-5278.
docs/reference/kubernetes-versions.md has the full table.
"""

import re
from dataclasses import dataclass
from enum import Enum


class Holding(Enum):
    """How long the scheduler reserves capacity for a gated pod that has `nominatedNodeName`."""

    ALWAYS = "always"
    UNTIL_RESTART = "until the scheduler restarts"
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A minor version of Kubernetes."""

    major: int
    minor: int

    def __str__(self) -> str:
        """The version as `major.minor`."""
        return f"{self.major}.{self.minor}"


RESERVES = Version(1, 37)
"""The first version whose scheduler counts the nominations of gated pods also after its own restart."""
OLDEST = Version(1, 36)
"""The oldest version on which the tests run."""


def version_of(text: str) -> Version | None:
    """Return the version in a server's `gitVersion`, such as v1.37.1-gke.100; None if there is none."""
    found = re.match(r"v?(\d+)\.(\d+)", text)
    return Version(int(found[1]), int(found[2])) if found else None


def holding(version: Version | None) -> Holding:
    """Return how long the scheduler of a version reserves capacity for gated pods that have `nominatedNodeName`."""
    if version is None or version < OLDEST:
        return Holding.UNKNOWN
    return Holding.UNTIL_RESTART if version < RESERVES else Holding.ALWAYS


def shortcoming(text: str) -> str:
    """Return a warning if a server of this version may not always reserve capacity for gated pods; "" if it does.

    :param text: the server's `gitVersion`, such as v1.37.1.
    """
    match holding(version_of(text)):
        case Holding.ALWAYS:
            return ""
        case Holding.UNTIL_RESTART:
            return (
                f"Kubernetes {text} holds the room of gated pods only until its scheduler restarts: a gang whose room "
                f"is taken then is planned again before anything of it is let go; {RESERVES} holds it always"
            )
        case Holding.UNKNOWN:
            return (
                f"Kubernetes {text} is older than {OLDEST}, the oldest that is tested: whether its scheduler holds the "
                f"room of gated pods is not known; plans are verified before release and repaired after it"
            )
