"""What the nodes are arranged in: a snapshot and a topology come in, out go trees of domains and the room in each.

Start with `tree`; `domain_room` sums what is free in every domain, `well_known_levels` finds a topology in a cluster
that describes none.
"""
