"""Gangs of one priority that may be in each other's way.

In comes a `tier.Tier`; out come a `Decision` for each and the snapshot after them. Start with `planned_together`,
which weighs them against each other where that can be done; `in_turn` plans one after the other, and `united` all as
one gang where that leaves somebody without a place.
"""
