"""Turns the objects and annotations of every dialect into one `Gang`. The functions are pure: from Kubernetes objects
to values.

Start with `model` (the definition of a gang) and `sources` (the inputs of a reading). Each of these packages uses
only the packages after it: `incremental` (cached readings of all gangs), `dialects` (functions over all dialects),
`coexistence` (workloads that are ceded to other systems), one package for each dialect, `topology` (levels and node
pools), `workloads` (kinds that create pods). `findings` collects faults and advice.
"""
