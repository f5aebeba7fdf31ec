"""An independent check of a plan: every hard rule, and every goal counted again.

In come a `Problem` and a `Plan`; out come the rules that it breaks, as sentences. Start with `rules`. Written from
docs/decisions/0002 and `solver.problem` alone: nothing here knows a model, a search or a bound, which import-linter
holds.
"""
