"""Start orders: how a row of the table of kinds states that a workload creates some pods only when others run."""

from dataclasses import dataclass
from enum import Enum


class MadeLater(Enum):
    """Pods that a workload creates only when others of its pods run, are ready or have ended."""

    REST = "all pods but the first"
    LAUNCHER = "the launcher"
    WORKERS = "the workers of each group"
    OTHER_JOBS = "the pods of all replicated jobs but the first"
    ITS_JOBS = "the pods of that replicated job"
    REST_OF_JOBS = "all pods but the first of each Job"


@dataclass(frozen=True, slots=True)
class StartOrder:
    """A field or an annotation (at path `at`) that makes a workload create some of its pods later.

    With `says`, the field must have this value. With `unless`, it must have any other value. With neither, it must be
    set. `at_once`: the remedy that makes the workload create all pods at once. An annotation counts on the Jobs of a
    replicated job, too.
    """

    at: str
    later: MadeLater
    says: str = ""
    unless: str = ""
    at_once: str = ""
    annotation: bool = False
