"""The steps of a reconcile that change the cluster for a gang.

The input is the immutable `ReconcileState`s of a reconcile. The output is writes to the API server, and their
`Effects`, which the loop applies. Start with `executing`: nominations, evictions and releases. `untried` deletes
members that no scheduler tries, so that they are recreated. `withdrawing` withdraws gangs, and `restarting` restarts
gangs as a whole. `probe` finds out when the scheduler has seen the nominations. `placeholders` reserves capacity for
expected pods, unless `resource_quota_shortages` finds a quota that refuses them.
"""
