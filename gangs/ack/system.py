"""ACK Lingjun as a system to which workloads can be ceded.

Phalanx cannot detect that it runs, so its workloads are ceded only if an administrator's annotation names it.
"""

from gangs.ack import NAME
from gangs.system import System

ACK = System(NAME, NAME, (NAME,), component=NAME)
