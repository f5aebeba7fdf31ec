"""How long the scheduler of a Kubernetes version reserves capacity for a gated pod that has `nominatedNodeName`.

Sources: the kube-scheduler of 1.33.13, 1.34.4, 1.35.4, 1.36.3 and 1.37.1 (`pkg/scheduler/backend/queue`),
CHANGELOG-1.37, KEP-5278. docs/reference/kubernetes-versions.md has the full table.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

SCHEDULER_PODS = "/api/v1/namespaces/kube-system/pods?labelSelector=component%3Dkube-scheduler"
"""The API path that lists the scheduler's static pods, by the label that kubeadm gives them."""


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
OLDEST = Version(1, 33)
"""The oldest version whose scheduler is known to count the nominations of pods without a gate after its restart."""


def version_of(text: str) -> Version | None:
    """Return the version in a server's `gitVersion`, such as v1.37.1-gke.100; None if there is none."""
    found = re.match(r"v?(\d+)\.(\d+)", text)
    return Version(int(found[1]), int(found[2])) if found else None


def scheduler_version(api_server: str, pods: Iterable[Mapping[str, Any]]) -> Version | None:
    """Return the version of the oldest scheduler that may run; None if it is not known.

    An API server is never older than the scheduler (Kubernetes' version skew policy). During an upgrade it may be
    newer. If the scheduler runs as a pod, such as a static pod of kubeadm, its image has its version.

    :param api_server: the API server's `gitVersion`.
    :param pods: manifests of the scheduler's pods; empty if no pod shows it, as on managed clusters.
    """
    tags = (
        str(container.get("image") or "").partition("@")[0].rpartition(":")[2]
        for pod in pods
        for container in (pod.get("spec") or {}).get("containers") or ()
    )
    known = [found for found in map(version_of, (api_server, *tags)) if found is not None]
    return min(known) if version_of(api_server) is not None else None


def holding(version: Version | None) -> Holding:
    """Return how long the scheduler of a version reserves capacity for gated pods that have `nominatedNodeName`."""
    if version is None or version < OLDEST:
        return Holding.UNKNOWN
    return Holding.UNTIL_RESTART if version < RESERVES else Holding.ALWAYS


def forgets(version: Version | None) -> bool:
    """Return whether a scheduler of this version may forget the nominations of gated pods when it restarts.

    Then placeholders reserve the capacity of gated members (docs/decisions/0043). True for an unknown version, because
    placeholders reserve capacity in all versions.
    """
    return holding(version) is not Holding.ALWAYS


def way_of_holding(version: Version | None) -> str:
    """Return a sentence for the user: how the capacity of planned gangs is reserved under a scheduler of this
    version.
    """
    name = "of an unknown version" if version is None else str(version)
    match holding(version):
        case Holding.ALWAYS:
            return f"the scheduler {name} reserves capacity for gated pods"
        case Holding.UNTIL_RESTART:
            return (
                f"the scheduler {name} forgets the nominations of gated pods when it restarts, so placeholders reserve "
                f"the capacity of planned gangs"
            )
        case Holding.UNKNOWN:
            return shortcoming(version)


def shortcoming(version: Version | None) -> str:
    """Return a warning if it is not known whether a scheduler of this version keeps capacity reserved; "" otherwise."""
    if holding(version) is not Holding.UNKNOWN:
        return ""
    name = "an unknown version" if version is None else f"{version}, older than {OLDEST}, the oldest that is supported"
    return (
        f"the scheduler has {name}: whether it holds the capacity of planned gangs is not known; plans are verified "
        f"before release and repaired after it"
    )
