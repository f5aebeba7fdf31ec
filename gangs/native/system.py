"""The description of kube-scheduler as a scheduling system: it places PodGroups of scheduling.k8s.io itself, so Phalanx
cedes them to it by default.
"""

from gangs.native import NAME
from gangs.system import System

NATIVE = System(NAME, "kube-scheduler", (NAME,), component="", by_default=True)
