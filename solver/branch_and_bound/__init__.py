"""Plans inside one domain that can hold the whole gang: domains are solved from the most promising one on, with a
proof.

The input is an `instance.Instance`; the result is the best plan with its proof. Start with `by_domain`. `subproblem`
cuts a domain out of an instance. `reduction` leaves out the domains that a most compact plan cannot use.
"""
