"""All dialects together: the questions that everybody asks of them, without knowing which there are.

In come Kubernetes objects and pods (`gangs.sources.Sources`), out go gangs, topologies, faults and advice. Start with
`table` (which dialects there are) and `protocol` (what each has to bring, docs/decisions/0018). `claims` says whose a
pod is, `topologies` what nodes are arranged in, `reading` reads all gangs, `reviewing` looks at one object at its
admission, among the pods that `concerned` finds, and `templates` says what the pods of a workload get then.
`expanding` makes up the pods that are still to come, `protection` says which pods are never victims, and `typos`
finds keys that ask for nothing.
"""
