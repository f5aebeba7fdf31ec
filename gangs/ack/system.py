"""ACK Lingjun as a system that may run here. It has no webhooks as evidence, so only an annotation cedes its
workloads.
"""

from gangs.ack import NAME
from gangs.system import System

ACK = System(NAME, NAME, (NAME,), component=NAME)
