"""The live picture: watch caches or files, turned into one immutable `Snapshot`. Knows no dialect.

Start with `snapshot`. The rooms, each of which uses only those after it: `caches` (the picture kept up to date),
`topology` (trees of domains), `eligibility` (which nodes a pod may use) and `api` (the API server, asked directly).
"""
