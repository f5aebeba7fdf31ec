"""Plans at once and without proof: what is there early, and what is left when the time is over.

In comes an `instance.Instance`; out come plans, each better than the one before. Start with `incumbent`, which keeps
the best; `greedy` makes them by seating `blocks` one after the other, `packing` puts as many members as possible
anywhere.
"""
