"""Where one domain can hold the whole gang: domain after domain, the most promising first, until none can be better.

In comes an `instance.Instance`; out comes the best plan with its proof. Start with `by_domain`; `subproblem` cuts a
domain out of an instance, `reduction` leaves out the domains that a most compact plan cannot use.
"""
