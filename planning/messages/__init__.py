"""Turns a solver's answer into a `Decision` with messages for people and reports for programs.

The input is the solver's answer with its framing. Start with `outcomes`. `wording` holds every sentence, and
`solve_report` the JSON. `shortfalls` finds the capacity that is short. `unlabelled` finds node labels that would help.
"""
