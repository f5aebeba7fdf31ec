"""Rules of the stock scheduler that are not part of the solver's problem.

`member_affinity` checks a plan against the affinity and spread rules between members, and requests another plan if one
is broken. `binding_order` finds an order in which the scheduler can bind the members. `holdups` finds the reasons that
would keep a member from being bound on any node. `resource_claims` finds members that need devices which Phalanx does
not plan. `resource_quotas` finds expected pods that a ResourceQuota would reject.
"""
