"""What workloads make: Jobs and workloads of other kinds come in, out go their pod templates and the pods to come.

Start with `jobs` (the rules of the Job controller) and `kind_table` (every other kind that makes pods, and where its
templates stand). `pod_templates` reads those templates, `pod_counts` how many pods each of them makes, `minimum_pods`
how many must start together; `later_pods` is about those that are made only when others run; `annotated_jobs` reads
Jobs that are gangs by their own annotations.
"""
