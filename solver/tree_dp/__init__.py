"""Gangs whose members are alike, or of a few classes, by dynamic programming over the domain tree.

In comes an `instance.Instance`; out comes the best plan with a proof of every goal, or None where this way cannot tell.
Start with `single_class`, for members that are all alike; `single_class_tables` has the recurrence, `min_plus` the
products of tables, `reconstruct` the way back to single nodes; `multi_class` does it for members of a few classes.
"""
