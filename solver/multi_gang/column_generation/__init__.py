"""The most compact plans of many gangs together, with a lower bound: column generation.

A column is one plan of one gang, described by the number of members that it puts on each class of alike nodes. Start
with `generation`. Two steps alternate. The `restricted_master` (a `linear_programme`, with `cuts`) computes a price for
each class of nodes, and `pricing` finds each gang's best column at these prices. At last, `diving` turns fractions of
columns into one whole plan per gang. `allotment` divides gangs among wide domains.
"""
