"""A decision in words, for people and for programs.

In comes what the solver answered, with its framing; out comes a `Decision`. Start with `outcomes`; every sentence is in
`wording`, the JSON in `solve_report`; `shortfalls` and `unlabelled` find out what is short and what would help.
"""
