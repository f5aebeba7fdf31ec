"""Exact placement of gangs: from a `Problem` to a proven `Plan` or a confirmed rejection. Pure functions of plain data.

Start with `problem` (the input), `plan` (the result) and `solve` (the way from one to the other). The packages follow;
each uses only those after it. `multi_gang` plans several gangs that compete. `explain` says why there is no plan, and
what would help. `heuristics` finds plans quickly, without proof. `eviction`, `branch_and_bound`, `tree_dp` and `cp_sat`
are four ways to a proof. `bounds` has results of counting alone. `verify` shares only plain data with the others.
"""
