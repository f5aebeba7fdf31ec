"""The best plan inside one domain that can hold the whole gang, with a proof: domains are solved in order of the lower
bounds on their plans.

The input is an `instance.Instance`. Start with `by_domain`. `subproblem` cuts a domain out of an instance. `reduction`
leaves out the narrower domains that a most compact plan cannot use.
"""
