"""How the table of kinds states that a workload creates some pods only after others of its pods run."""

from dataclasses import dataclass
from enum import Enum


class MadeLater(Enum):
    """Which pods a workload creates only after others of its pods run, are ready or have ended."""

    REST = "all pods but the first"
    LAUNCHER = "the launcher"
    WORKERS = "the workers of each group"
    OTHER_JOBS = "the pods of all replicated jobs but the first"
    ITS_JOBS = "the pods of that replicated job"
    REST_OF_JOBS = "all pods but the first of each Job"


@dataclass(frozen=True, slots=True)
class StartOrder:
    """A setting by which a workload creates some of its pods (`later`) only after others run.

    `at`: the path of the field, or the key of an annotation if `annotation` is true. `says`: the field must have this
    value. `unless`: the field must have any other value. With neither, the field must be set. `at_once`: the remedy
    that makes the workload create all pods at once. An annotation has the same effect on the Job templates of a JobSet.
    """

    at: str
    later: MadeLater
    says: str = ""
    unless: str = ""
    at_once: str = ""
    annotation: bool = False
