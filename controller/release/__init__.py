"""The release protocol: how a plan is carried out without races. Pure functions of the cluster (docs/decisions/0001).

The input is a gang, the record of its plan and a snapshot. The output is the next step. Start with `next_step`.
`records` is the plan as the Gang object stores it. `patches` releases members. `wholeness` determines whether a gang
ever was whole.
"""
