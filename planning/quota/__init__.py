"""Gangs that are charged to a queue.

In come a gang, the usage of all queues and a way to plan it; out comes a `Decision` in the best choice of flavors that
the quota covers. Start with `queueing`; `usage` counts what is used and left, `flavors` puts a gang on a flavor's
nodes, and `joint_quotas` states the quotas of several gangs for their joint problem.
"""
