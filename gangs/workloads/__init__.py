"""Workloads: from Jobs and workloads of other kinds to their pod templates and expected pods.

Start with `kind_table` (every kind that creates pods: its templates, its child workload, its rules) and `jobs` (the
rules of the Job controller). `child_workloads` finds the child workload that is the gang. `pod_templates` reads the
templates. `pod_counts` computes how many pods each template has. `minimum_pods` computes how many pods must start
together. `later_pods` handles pods that a workload creates only when others run. `annotations` has the
checks of requests by annotation that several dialects share.
"""
