"""Topologies of the nodes, as objects and gangs name them: from names of topologies and levels to a topology.

Start with `levels`, which chooses the topology of a gang and checks its levels. `node_pools` decides which topology
describes which nodes. `level_labels` checks the labels that a topology lists. `network_layers` is the part that the
dialects of Koordinator and ACK share.
"""
