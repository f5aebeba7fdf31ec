"""Plans the gangs of one priority, which may compete for nodes and quotas.

The input is a `tier.Tier`; the output is a `Decision` for each gang, and what the plans take. Start with
`planned_together`, which plans the gangs in one joint model. `carrying_over` turns a joint answer into decisions, and
`one_by_one` plans one gang after the other if there is no joint plan.
"""
