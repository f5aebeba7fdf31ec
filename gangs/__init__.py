"""Turns the objects and annotations of every dialect into one `Gang`. Pure: Kubernetes objects in, values out.

Start with `model` (what a gang is) and `sources` (what it is read from). The rooms, each of which uses only those after
it: `incremental` (all gangs, kept as they were read), `dialects` (the questions asked of all of them), `coexistence`
(what is left to other systems), one package for each dialect, `topology` (levels and node pools), `workloads` (what
makes pods). `findings` collects what is wrong.
"""
