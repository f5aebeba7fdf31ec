"""Workloads that are gangs as a whole, in any dialect. Their pods are identified by a mark.

Admission puts the label `phalanx.dev/workload` on all pod templates of such a workload. Its value is the kind of the
workload in Phalanx's own dialect, and `<system>.<kind>` in other dialects. `makers` finds the workload of a marked pod.
`members` finds the members of its gang. `child_checks` reports faults of a child workload on its parent.
"""
