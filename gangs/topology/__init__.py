"""What the nodes are arranged in, as objects and gangs say it.

In come names of topologies and levels; out go the topology that is meant, and what is wrong with the naming. Start
with `levels` (which topology a gang means, and whether its levels are there); `node_pools` says which topology
describes which nodes, `level_labels` which labels a topology may list, `network_layers` what Koordinator and ACK share.
"""
