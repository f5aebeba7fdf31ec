"""The general method: one CP-SAT model of an instance, solved goal by goal in their order.

The input is an `instance.Instance`. The result is a `solve.Solved`, with the proof of each goal, or a
`lexicographic.SolveStatus` without a plan. Start with `solve`. `constraint_model` states the hard constraints,
`goal_terms` states the goals, and `lexicographic` proves one goal after the other.
"""
