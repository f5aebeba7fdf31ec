"""Workloads: from Jobs and workloads of other kinds to their pod templates and expected pods.

Start with `jobs` (the rules of the Job controller) and `kind_table` (every other kind that creates pods, with the
paths of its templates). `pod_templates` reads the templates. `pod_counts` computes how many pods each template has.
`minimum_pods` computes how many pods must start together. `later_pods` handles pods that a workload creates only when
others run. `annotated_jobs` reads Jobs that are gangs by their own annotations.
"""
