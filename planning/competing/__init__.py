"""Plans the gangs of one priority, which may compete for nodes and quotas.

`planning.planner.plan_in_turn` calls this package for one priority after the other, the highest first. The input is a
`same_priority.SamePriority`, in which older gangs come first (`planning.gang_order`). The output is a `Decision` for
each gang, and what the plans take. A gang that gets no place beside earlier ones is rejected with a proof if the joint
model proves it.

Start with `planned_together.plan_same_priority`, which plans the gangs in one joint model. `carrying_over` turns a
joint answer into decisions, and `one_by_one` plans one gang after the other if there is no joint plan.
"""
