"""The most compact plans of many gangs at once, with a bound: column generation.

A column is one plan of one gang, described by what it takes of each class of nodes. Start with `generation`. In turns,
the `restricted_master` (a `linear_programme`, with `cuts`) prices the nodes, and `pricing` finds each gang's best
column at those prices. In the end, `diving` turns shares of columns into whole plans.
"""
