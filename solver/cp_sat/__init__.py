"""The general way: one CP-SAT model of an instance, solved goal by goal in their order.

In comes an `instance.Instance`; out comes a `solve.Solved`, with what is proven of each goal, or a
`lexicographic.Found`. Start with `solve`; `constraint_model` states the hard rules, `goal_terms` the goals,
`lexicographic` proves one goal after the other.
"""
