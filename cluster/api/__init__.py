"""Requests to the API server. Responses are decoded into objects and trimmed to the fields that Phalanx reads.

Start with `transport`, which sends every request. `connections` and `incoming` write requests to a connection, and
read its responses. `connecting` finds the cluster. `single` reads the current state of
one object. `token_reviews` checks what the bearer of a token may do. `trimming` makes objects small enough to keep all
of them in memory.
"""
