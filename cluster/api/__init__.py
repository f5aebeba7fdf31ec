"""The API server, asked directly: requests go out, decoded objects come in, trimmed to what somebody reads.

Start with `transport` (every request of ours); `connecting` finds the cluster, `single` reads one object as it is now,
`token_reviews` asks what a token may do, `trimming` makes objects small enough to keep.
"""
