"""The benchmark of the solver: it measures solve times and the share of proven results, and compares the solver with a
plain reference model.

The reference model (`naive`) solves the same instances without the solver's bounds and special methods.
"""
