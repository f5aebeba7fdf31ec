"""Other systems in the same cluster: the objects that show them come in, out goes what is left to them.

Start with `ownership` (whose a dialect's workloads are, docs/decisions/0005); `systems` lists those that may run
here, `running_schedulers` says which schedulers do, and so whether a gang's pod may keep the one that it names
(docs/decisions/0010).
"""
