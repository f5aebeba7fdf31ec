"""Bounds on an instance by counting, before any search.

The input is an `instance.Instance`. The results are bounds that no plan exceeds, and classes of interchangeable
members. Start with `domain_cover` (the fewest domains that can hold the gang). `eviction_closure` computes which
victims must be evicted together. `member_classes` computes which members may be counted together. Facts about a problem
alone are in `solver.capacity`, below the instance.
"""
