"""Several gangs of one priority that compete for the same nodes.

The input is a problem with several gangs (`solver.problem.GangRules`). The result is a share for each gang, with what
is proven of all gangs together. Start with `joint`. `joint_problem` also checks a result. `all_placed` plans many gangs
that all fit, over the arrays of `shared_nodes`, by `column_generation`.
"""
