"""Other systems in the same cluster: from the objects that show them to the workloads that are ceded to them.

Start with `ownership`, which decides the system that a dialect's workloads belong to (docs/decisions/0005). `systems`
lists the systems that may run in the cluster. `running_schedulers` decides which schedulers run. A gang's pod may keep
the scheduler that it names only if that scheduler runs (docs/decisions/0010).
"""
