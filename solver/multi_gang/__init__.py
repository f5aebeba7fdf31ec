"""Plans for several gangs of one priority that compete for the same nodes or quotas.

The input is a problem with several gangs (`solver.problem.GangRules`). The result is each gang's part of a joint plan
(`Share`), with a proof for all gangs together. Start with `joint`. `joint_problem` has the results, and checks of them.
`all_placed` plans many gangs that are all placed whole. It uses `column_generation` over the arrays of `shared_nodes`.
"""
