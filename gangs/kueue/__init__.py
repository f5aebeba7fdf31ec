"""Kueue's dialect, also as Baize ships it: queue names, `podset-…` annotations, Topology, ResourceFlavor and queues."""

NAME = "kueue"
"""The dialect's name, as in `GangKey` and in outputs."""
