"""Our own way of asking: Gang and Topology objects, labels on pods, annotations on Jobs, automatic namespaces."""

NAME = "phalanx"
"""The dialect's name, in `GangKey` and in the report."""
