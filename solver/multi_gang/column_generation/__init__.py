"""The most compact plans of many gangs together, with a bound: column generation.

A column is one plan of one gang, described by the number of members that it puts on each class of alike nodes. Start
with `generation`. In turns, the `restricted_master` (a `linear_programme`, with `cuts`) prices the nodes, and `pricing`
finds each gang's best column at those prices. In the end, `diving` turns fractions of columns into one whole plan per
gang. `allotment` divides gangs among wide domains.
"""
