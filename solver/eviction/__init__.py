"""Plans that evict: the fewest and least important victims, proven.

In comes an `instance.Instance` with victims; out comes the best plan with its proof. Start with `solve`; `lower_bounds`
says what room costs at least (node by node in `slot_costs`), `node_victims` who has to go from one node,
`dynamic_programme` does gangs of alike members.
"""
