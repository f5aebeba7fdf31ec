"""Reads the cluster, by watches or from files, into one immutable `Snapshot`. This package knows no dialect of gangs.

Start with `snapshot`. Each of these packages imports only the packages that are listed after it: `caches` (watches that
keep the cluster in memory), `topology` (trees of domains), `eligibility` (which nodes a pod may use) and `api`
(requests to the API server).
"""
