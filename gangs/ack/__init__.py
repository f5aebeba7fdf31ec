"""ACK Lingjun's way of asking: gang labels on pods that name a JobNetworkTopology."""

NAME = "ack"
"""The dialect's name, in `GangKey` and in the report."""
