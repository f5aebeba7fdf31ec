"""Gangs whose members are alike, or of a few classes, by dynamic programming over the domain tree.

In comes an `instance.Instance`; out comes the best plan with a proof of every goal, or None where this way cannot tell.
Start with `solve`; `min_plus` has the products of tables, `tables` says what is counted, `reconstruct` finds the way
back to single nodes, and `multi_class` does the same for members of several classes.
"""
