"""Explanations: the reasons for a rejection, and the best alternative to a plan.

The input is a `Problem` and its result. The output is the nearest domains (`nearest`), the smallest changes after which
the gang would fit (`remedies`, where to start) and the best plan elsewhere (`alternatives`). Every reported change was
verified.
"""
