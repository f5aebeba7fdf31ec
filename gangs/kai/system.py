"""How Phalanx detects that KAI Scheduler runs in the cluster, by the names in KAI Scheduler's own manifests."""

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
"""KAI Scheduler. It also handles the dialect of Run:ai, which is built on it."""
