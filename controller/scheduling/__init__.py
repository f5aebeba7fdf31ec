"""Planning in the background of reconciles: which gangs are planned when, and which results are cached.

The input is the gangs and a cluster view. The output is a decision for each gang, or None while the gang is planned.
Start with `planning_queue`, which remembers each gang as a `queued_gang`. It sends `planning_requests`, which the
threads of `single_slot_executor` answer.
`plan_revalidation` checks whether a plan is stale before a reconcile accepts it.
`rejections` and `cluster_changes` decide when a rejected gang is planned again.
`capacity_bound` and `infeasible_queue` keep gangs that fit nowhere from delaying other gangs.
"""
