"""Exact placement of gangs: from a `Problem` to a proven `Plan` or a confirmed rejection. Pure functions of plain data.

Start with the modules `problem` (the input), `plan` (the result) and `solve` (the way from one to the other). The
packages follow, and each imports only packages that stand after it. `multi_gang` plans several gangs that compete.
`explain` says why there is no plan, and which changes would help. `heuristics` finds plans quickly, without proof.
`eviction`, `branch_and_bound`, `tree_dp` and `cp_sat` are four ways to a proof. `bounds` computes bounds by counting,
without a search. `verify` checks a finished plan, and shares only plain data with the others.
"""
