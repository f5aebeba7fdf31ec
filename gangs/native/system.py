"""kube-scheduler as the system that schedules PodGroups of scheduling.k8s.io itself."""

from gangs.native import NAME
from gangs.system import System

NATIVE = System(NAME, "kube-scheduler", (NAME,), component="", by_default=True)
