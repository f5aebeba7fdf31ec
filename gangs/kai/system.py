"""KAI Scheduler as a system that may run here; names as its own manifests have them."""

from gangs.kai import NAME
from gangs.system import System

KAI = System(
    NAME,
    "KAI Scheduler",
    (NAME, "runai"),
    component=NAME,
    namespace="kai-scheduler",
    configuration=r"(mutating|validating)-kai-admission|kai-(podgroup|queue)-validation-.+",
    schedulers=("kai-scheduler",),
)
"""Run:ai rests on KAI Scheduler: each of the two reads the other's objects."""
