"""The conversion of Kubernetes objects and annotations of every dialect into values of one type, `Gang`, without I/O.

Start with `model` (the definition of a gang) and `sources` (the pods and objects that gangs are derived from). Each of
these packages uses only the packages after it: `incremental` (all gangs, updated with each change of the cluster),
`dialects` (functions over all dialects), `coexistence` (workloads that are ceded to other systems), one package for
each dialect, `topology` (levels and node pools), `workloads` (kinds that create pods). `findings` collects faults and
advice for users.
"""
