"""Several gangs of one priority that compete for the same nodes.

In comes a problem with several gangs (`solver.problem.GangRules`); out comes a share for each gang, with what is proven
of all together. Start with `joint`; `joint_problem` also checks an answer. `all_placed` takes many gangs that all have
room, in the numbers of `shared_nodes`, by `column_generation`.
"""
