"""Kubernetes' own dialect: pods that name a PodGroup of the API group scheduling.k8s.io."""

NAME = "native"
"""The dialect's name, as in `GangKey` and in outputs."""
