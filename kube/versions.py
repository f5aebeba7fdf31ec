"""How long versions of Kubernetes reserve capacity for nominated pods that are still gated.

Sources: the kube-scheduler of 1.36.3 and 1.37.1 (`pkg/scheduler/backend/queue`), CHANGELOG-1.37, KEP-5278. The whole
table is docs/reference/kubernetes-versions.md.
"""

import re
from dataclasses import dataclass
from enum import Enum


class Holding(Enum):
    """How long the scheduler reserves the capacity of a nominated pod that is still gated."""

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
"""The first version whose scheduler counts the nomination of every gated pod that it reads, also at its own start."""
OLDEST = Version(1, 36)
"""The oldest version on which the tests run."""


def version_of(text: str) -> Version | None:
    """Return the version in a server's `gitVersion`, such as v1.37.1-gke.100; None if there is none."""
    found = re.match(r"v?(\d+)\.(\d+)", text)
    return Version(int(found[1]), int(found[2])) if found else None


def holding(version: Version | None) -> Holding:
    """Return how long that version's scheduler reserves capacity for nominated gated pods."""
    if version is None or version < OLDEST:
        return Holding.UNKNOWN
    return Holding.UNTIL_RESTART if version < RESERVES else Holding.ALWAYS


def shortcoming(text: str) -> str:
    """Return the message about the guarantee that a server of this `gitVersion` lacks; "" if it lacks none."""
    match holding(version_of(text)):
        case Holding.ALWAYS:
            return ""
        case Holding.UNTIL_RESTART:
            return (
                f"Kubernetes {text} reserves capacity for gated pods only until its scheduler restarts: a gang whose "
                f"capacity is taken then is replanned before a member is released; {RESERVES} reserves it always"
            )
        case Holding.UNKNOWN:
            return (
                f"Kubernetes {text} is older than {OLDEST}, the oldest that is tested: whether its scheduler holds the "
                f"room of gated pods is not known; plans are verified before release and repaired after it"
            )
