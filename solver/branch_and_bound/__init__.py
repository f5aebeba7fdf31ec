"""Where one domain can hold the whole gang: domain after domain, the most promising first, until none can be better.

In comes a `case.Case`; out comes the best plan with its proof. Start with `by_domain`; `subproblem` cuts a domain out
of a case, `reduction` leaves out the domains that a most compact plan cannot use.
"""
