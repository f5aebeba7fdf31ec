"""Plans for several gangs of one priority that compete for the same nodes or quotas.

The input is a problem with several gangs (`solver.problem.GangRules`). The result is a share of the plan for each gang,
with what is proven of all gangs together. Start with `joint`. `joint_problem` has the results, and checks of them.
`all_placed` plans many gangs that are all placed whole, over the arrays of `shared_nodes`, by `column_generation`.
"""
