"""Workloads that are gangs as a whole, in any dialect. Their pods are recognized by the label `phalanx.dev/workload`.

Admission adds this label, the *mark*, to all pod templates of such a workload. Its value is the kind of the workload
(`JobSet`) in Phalanx's own dialect, and `<dialect>.<kind>` (`kueue.JobSet`) in other dialects. `makers` finds the
workload of a pod with the label. `members` finds the members of its gang. `child_checks` reports faults of a child
workload on its parent.
"""
