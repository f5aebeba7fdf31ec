"""ACK Lingjun's dialect: labels on pods that name a gang and a JobNetworkTopology, an object that requests levels."""

NAME = "ack"
"""The dialect's name, as in `GangKey` and in outputs."""
