"""Bounds on the plans of an instance by counting, before any search.

The input is an `instance.Instance`. Start with `domain_cover` (the fewest domains that can hold the gang).
`eviction_closure` computes which victims must be evicted together. `member_classes` groups members that may be counted
instead of named. `emptiest_group` bounds topology spread. Facts about a problem alone are in `solver.capacity`, below
the instance.
"""
