"""The benchmark of the solver: solve times, the share of proven results, and a plain reference model.

The reference model (`naive`) solves the same instances.
"""
