"""The best plan with evictions, with a proof: it evicts the fewest and least important pods (goal 1).

The input is an `instance.Instance` with victims. Start with `solve`. `lower_bounds` computes the least cost of
evictions for capacity, node by node in `slot_costs`. `node_victims` chooses the victims of one node.
`dynamic_programme` solves gangs of alike members.
"""
