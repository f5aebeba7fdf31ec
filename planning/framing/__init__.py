"""Framing: turns a gang on a snapshot into the solver's problem.

The input is a `Gang`, a `Snapshot` and a `Topology`. The output is a `gang_problem.Framing`, which also maps positions
back to pods and nodes. Start with `gang_problem`. `shapes` holds the nodes on which each member may run, and
`member_rules` the rules between members. `victims` finds the pods that may be evicted under the `disruption_budgets`.
`stranded` finds the members that were released to a node that can no longer take them.
"""
