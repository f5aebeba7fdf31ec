"""Dynamic programming over the domain tree, for gangs whose members are alike or form a few member classes.

The input is an `instance.Instance`. The result is the best plan with a proof of every goal, or None if counting members
does not express all constraints of the gang. Start with `single_class`, for members that are all alike.
`single_class_tables` has the recurrence, `min_plus` the products of tables, and `reconstruct` the way back from tables
to single nodes. `multi_class` does the same for members of a few classes.
"""
