"""A gang on a snapshot becomes the solver's problem.

In come a `Gang`, a `Snapshot` and a `Topology`; out comes a `gang_problem.Framing`, with the way back from positions
to pods and nodes. Start with `gang_problem`; `shapes` says where each member may run, `member_rules` what members say
of each other, `victims` who may be evicted under which `disruption_budgets`, `stranded` who was let go to a node that
cannot take it.
"""
