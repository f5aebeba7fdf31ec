"""Koordinator as a system that may run here; names as its own manifests have them."""

from gangs.koordinator import NAME
from gangs.system import System

KOORDINATOR = System(
    NAME,
    "Koordinator",
    (NAME,),
    component=NAME,
    namespace="koordinator-system",
    webhook=r".+\.koordinator\.sh",
    schedulers=("koord-scheduler",),
)
