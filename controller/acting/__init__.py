"""The steps of a round that change the cluster for a gang.

In come the `GangRound`s of a round; out go writes: nominations, evictions, releases (`executing`, where to start),
members that are made again because no scheduler tries them (`untried`), gangs that are taken back (`withdrawing`) or
started anew as a whole (`restarting`). `probe` knows when the scheduler has seen the nominations, `placeholders` hold
room for pods to come, as long as `resource_quota_shortages` finds no quota that refuses these.
"""
