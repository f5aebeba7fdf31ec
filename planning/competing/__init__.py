"""Gangs of one priority that may be in each other's way.

In comes a `tier.Tier`; out come a `Decision` for each and what they take. Start with `planned_together`, which plans
them in one joint model. `carrying_over` makes decisions of a joint answer, and `one_by_one` plans one gang after the
other where there is no joint plan.
"""
