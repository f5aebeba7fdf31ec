"""Several gangs of one priority that compete for the same nodes.

In comes a `joint.JointProblem`; out comes a share for each gang, with what is proven of all together. Start with
`joint`; `merge` makes one problem of several, `all_placed` takes the many that all have room, by `column_generation`.
"""
