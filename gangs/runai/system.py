"""NVIDIA Run:ai as a system that may run here; names as its installation guide has them."""

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
"""It rests on KAI Scheduler: each of the two reads the other's objects."""
