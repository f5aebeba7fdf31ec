"""Exact placement of gangs: a `Problem` in, a proven `Plan` or a confirmed no out. Pure functions of plain data.

Start with `problem` (what is asked), `plan` (what is answered) and `solve` (the way from one to the other). The rooms,
each of which uses only those after it: `multi_gang` (several gangs that compete), `explain` (why not, and what would
help), `heuristics` (plans at once, without proof), `eviction`, `branch_and_bound`, `tree_dp` and `cp_sat` (four ways to
a proof), `bounds` (what counting alone can say). `verify` shares nothing with any of them but plain data.
"""
