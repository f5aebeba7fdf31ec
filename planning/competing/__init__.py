"""Plans the gangs of one priority, which may compete for nodes and quotas.

`planning.planner.plan_in_turn` calls this package for one priority after the other, the highest first. The input is a
`same_priority.SamePriority`, in which older gangs come first (`planning.gang_order`). The output is a `Decision` for
each gang, and the capacity and quota that their plans take. If a gang does not fit beside earlier gangs, its rejection
is proven if the joint model proves it. Start with `planned_together.plan_same_priority`, which plans the gangs in one
joint model. `carrying_over` turns the solver's joint answer into decisions. `one_by_one` plans one gang after the other
if there is no joint plan.
"""
