"""NVIDIA Run:ai's way of asking: Topology objects of kai.scheduler and annotations on workloads."""

NAME = "runai"
"""The dialect's name, in `GangKey` and in the report."""
