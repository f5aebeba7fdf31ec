"""Watch caches: keep the cluster's objects in memory by watches, and give an immutable `Snapshot` at any time.

Start with `cache`. `reflector` copies one resource by list and watch. `sinks` store its objects. `journal` records the
names of changed objects. `freshness` exports the age of the caches as metrics.
"""
