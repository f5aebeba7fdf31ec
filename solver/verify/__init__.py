"""An independent check of a plan: every hard rule, and every goal counted again.

The input is a `Problem` and a `Plan`. The result is the rules that the plan breaks, as sentences. Start with `rules`.
The package is written from docs/decisions/0002 and `solver.problem` alone. It imports no model, search or bound;
import-linter enforces that.
"""
