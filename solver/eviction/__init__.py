"""Plans that evict: the fewest and least important victims, proven.

The input is an `instance.Instance` with victims; the result is the best plan with its proof. Start with `solve`.
`lower_bounds` computes the least cost of evictions for capacity, node by node in `slot_costs`. `node_victims` chooses
the victims of one node. `dynamic_programme` solves gangs of alike members.
"""
