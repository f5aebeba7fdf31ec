"""Plans gangs that are charged to a queue.

The input is a gang, the usage of all queues and a function that plans a gang. The output is a `Decision` in the best
choice of flavors that the quota covers. Start with `queueing`. `usage` counts used and free quota. `flavors` restricts
a gang to a flavor's nodes. `joint_quotas` turns the quotas of several gangs into constraints of their joint problem.
"""
