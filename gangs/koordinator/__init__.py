"""Koordinator's dialect: PodGroups, labels and annotations on pods, and the ClusterNetworkTopology.

Several of Koordinator's gangs can form a GangGroup, which starts together. In Phalanx, a GangGroup is one gang. Each
gang in Koordinator's sense is a *unit* of it (`units`).
"""

NAME = "koordinator"
"""The dialect's name, as in `GangKey` and in outputs."""
