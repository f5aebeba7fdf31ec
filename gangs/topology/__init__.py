"""Functions on topologies that dialects share.

Start with `levels`, which chooses the topology of a gang and checks the levels that the gang names. `node_pools`
decides which topology describes which nodes. `level_labels` checks the labels that a topology object lists.
`network_layers` is shared by the dialects of Koordinator and ACK.
"""
