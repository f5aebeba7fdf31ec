"""How Phalanx detects that NVIDIA Run:ai runs in the cluster, by the names in its installation guide."""

from gangs.runai import NAME
from gangs.system import System

RUNAI = System(
    NAME,
    "NVIDIA Run:ai",
    ("kai", NAME),
    component="kai",
    namespace="runai",
    schedulers=("runai-scheduler",),
)
"""NVIDIA Run:ai. It is built on KAI Scheduler, so it also handles the dialect of KAI Scheduler."""
