"""What counting can say of an instance before anything is searched.

In comes an `instance.Instance`; out come numbers that no plan can beat and the members that need not be told apart.
Start with `domain_cover` (how few domains can hold the gang); `eviction_closure` says who has to go with whom,
`member_classes` whom a count may put together. What a problem says by itself is in `solver.capacity`, below the
instance.
"""
