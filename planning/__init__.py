"""Brings the rooms together: a `Gang` and a `Snapshot` become a `Problem`, its answer becomes a `Decision`.

Start with `planner`, which decides, and `decision`, which is what it decides. `dry_run` does it for files. The rooms,
each of which uses only those after it: `doctor` and `files` (for the command line), `competing` (gangs of one
priority), `quota` (gangs of a queue), `messages` (a decision in words), `scheduler_rules` (what the stock scheduler
asks besides), `framing` (the problem stated) and `solver_pool` (the solver in processes of its own). `after_plan` is
the cluster as a plan leaves it, for whoever is planned next.
"""
