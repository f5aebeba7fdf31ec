"""What people and other programs see of gangs, groups, queues and topologies.

In come the `GangRound`s and the picture of a round; out go statuses, conditions and events. Start with `reporting`
(how every gang stands); `invalid_gangs` tells of gangs that cannot be read, `strays` of pods of no gang,
`status_sync` brings the objects of topologies, groups and queues up to date, `mirrors` makes a Gang object for every
gang.
"""
