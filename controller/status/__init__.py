"""The statuses, conditions and events of gangs, groups, queues and topologies, for people and other programs.

The input is the `ReconcileState`s and the cluster view of a reconcile. Start with `reporting`, which reports the state
of every gang. `invalid_gangs` reports gangs that cannot be read, and `strays` reports pods of no gang. `status_sync`
updates the objects of topologies, groups and queues. `mirrors` defines a Gang object for every gang.
"""
