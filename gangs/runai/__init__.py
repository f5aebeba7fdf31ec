"""NVIDIA Run:ai's dialect: Topology objects of kai.scheduler, and annotations `kai.scheduler/…` on workloads."""

NAME = "runai"
"""The dialect's name, as in `GangKey` and in outputs."""
