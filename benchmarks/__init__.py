"""Benchmark of the solver: solve times, the share of proven results, and a plain reference model on the
same instances.
"""
