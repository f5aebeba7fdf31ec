"""How a row of the table of kinds says that a workload makes some of its pods only when others of it run."""

from dataclasses import dataclass
from enum import Enum


class MadeLater(Enum):
    """Which pods a workload makes only when others of it run, are ready or have ended."""

    REST = "all pods but the first"
    LAUNCHER = "the launcher"
    WORKERS = "the workers of each group"
    OTHER_JOBS = "the pods of all replicated jobs but the first"
    ITS_JOBS = "the pods of that replicated job"
    REST_OF_JOBS = "all pods but the first of each Job"


@dataclass(frozen=True, slots=True)
class StartOrder:
    """A field of a kind, or an annotation, by which it makes some of its pods later.

    `says`: what must stand there; `unless`: what must not; neither: something must. `at_once`: what has these pods made
    with the others. An annotation may stand at the Jobs of a replicated job, too.
    """

    at: str
    later: MadeLater
    says: str = ""
    unless: str = ""
    at_once: str = ""
    annotation: bool = False
