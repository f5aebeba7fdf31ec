"""A no with its reasons, and a yes with what is next door.

In come a `Problem` and its answer; out come the nearest domains (`nearest`), the smallest changes that would help
(`remedies`, where to start) and the best plan elsewhere (`alternatives`). Everything that is told was tried.
"""
