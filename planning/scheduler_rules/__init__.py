"""Rules of the stock scheduler that are not part of the solver's problem.

`member_affinity` checks a plan against the rules between members, and requests another plan if one is broken.
`holdups` finds the reasons that would keep a member from being bound on any node.
"""
