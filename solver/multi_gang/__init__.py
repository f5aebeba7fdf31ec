"""Several gangs of one priority that compete for the same nodes.

In comes a `joint_problem.JointProblem`; out comes a share for each gang, with what is proven of all together. Start
with `joint`; `joint_problem` also says whether an answer may be true, `merge` makes one problem of several,
`all_placed` takes the many that all have room, in the numbers of `shared_nodes`, by `column_generation`.
"""
