"""Workloads that are gangs as a whole, in whichever system's words they ask: their pods are known by a mark.

Admission puts the label `phalanx.dev/workload` on all pod templates of such a workload. Its value is the kind of the
workload in our own words, `<system>.<kind>` in others'. `makers` says whose a marked pod is, `members` who is in its
gang, `inheritance` what is told of a workload of which another object is made that is the gang.
"""
