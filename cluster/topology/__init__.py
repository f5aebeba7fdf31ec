"""The topology of the nodes: builds the tree of domains, and sums the capacity of each domain.

The input is a snapshot and a topology. Start with `tree`. `domain_room` sums the free capacity of every domain.
`well_known_levels` derives a topology from node labels in a cluster without a Topology.
"""
