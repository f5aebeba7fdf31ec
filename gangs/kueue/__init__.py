"""Kueue's way of asking, also as Baize ships it: queue names, podset annotations, Topology, flavors and queues."""

NAME = "kueue"
"""The dialect's name, in `GangKey` and in the report."""
