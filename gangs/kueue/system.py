"""How Phalanx detects that Kueue runs in the cluster, by the names in Kueue's own manifests."""

from gangs.kueue import NAME
from gangs.system import System

KUEUE = System(
    NAME,
    "Kueue",
    (NAME,),
    component=NAME,
    namespace="kueue-system",
    webhook=r"[mv]clusterqueue\.kb\.io",
    marks=("kueue.x-k8s.io/managed", "kueue.x-k8s.io/podset", "kueue.x-k8s.io/workload"),
)
