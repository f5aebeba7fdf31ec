"""ACK Lingjun, which shows itself by no webhook: only an annotation says that it has its own workloads."""

from gangs.ack import NAME
from gangs.system import System

ACK = System(NAME, NAME, (NAME,), component=NAME)
