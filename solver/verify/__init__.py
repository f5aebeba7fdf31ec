"""An independent check of a plan: every hard constraint, and the value of every goal counted again.

The input is a `Problem` and a `Plan`. The result is a sentence for each constraint that the plan breaks. Start with
`rules`. The package is written from docs/decisions/0002 and `solver.problem` alone. It imports no model, search or
bound; import-linter enforces that.
"""
