"""Other scheduling systems in the same cluster, such as Kueue: how they are detected, and what is ceded to them.

Start with `ownership`, which decides whether Phalanx or another system handles a dialect's workloads
(docs/decisions/0005). `systems` lists the systems that may run in the cluster. `running_schedulers` decides which
schedulers run. A gang's pod may keep the scheduler that it names only if that scheduler runs (docs/decisions/0010).
"""
