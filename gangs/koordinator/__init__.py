"""Koordinator's way of asking: PodGroups, gang labels and annotations, ClusterNetworkTopology."""

NAME = "koordinator"
"""The dialect's name, in `GangKey` and in the report."""
