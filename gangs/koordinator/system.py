"""How Phalanx detects that Koordinator runs in the cluster, by the names in Koordinator's own manifests."""

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
