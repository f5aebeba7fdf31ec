"""Workloads of all kinds, such as Jobs: their pod templates, and the pods that they will create.

Start with `kind_table` (for every kind that creates pods: its pod templates, its child workload, its fields) and `jobs`
(the rules of the Job controller). `child_workloads` finds the child workload that is the gang. `pod_templates` reads
the templates. `pod_counts` computes how many pods each template has. `minimum_pods` computes how many pods must start
together. `later_pods` handles pods that a workload creates only after others run. `annotations` has checks of
annotations on workloads that several dialects share.
"""
