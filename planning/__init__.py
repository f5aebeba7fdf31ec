"""Planning: turns a `Gang` and a `Snapshot` into a `Problem`, and the solver's answer into a `Decision`.

Start with `planner`, which decides, and `decision`, the type of its result. `dry_run` plans the gangs of files.
Each of these packages imports only the packages that are listed after it:
`doctor` and `files` (for the command line), `competing` (gangs of one priority), `quota` (gangs of a queue),
`messages` (a decision in words), `scheduler_rules` (the stock scheduler's further rules), `framing` (the solver's
problem) and `solver_pool` (the solver in separate processes).
`after_plan` returns the cluster as a plan leaves it, for the gangs that are planned next.
"""
