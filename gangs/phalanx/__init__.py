"""Phalanx's own dialect: Gang and Topology objects, labels on pods, annotations on workloads, automatic namespaces.

In an automatic namespace, which has the label `phalanx.dev/automatic`, each Job of several pods is a gang.
"""

NAME = "phalanx"
"""The dialect's name, as in `GangKey` and in outputs."""
