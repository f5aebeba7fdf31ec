"""Functions over all dialects, so that their callers need not know which dialects exist.

The inputs are Kubernetes objects and pods (`gangs.sources.Sources`). The outputs are gangs, topologies, faults and
advice. Start with `table` (the list of dialects) and `protocol` (what each dialect implements, docs/decisions/0018).

- `claims`: the dialect and the gang of a pod.
- `topologies`: the topologies of the nodes, and the topology of a gang.
- `reading`: all gangs.
- `reviewing`: the review of one object at its admission, among the pods that `concerned` finds.
- `templates`: the labels that a workload's pod template gets at admission.
- `expanding`: expected pods.
- `protection`: pods that are never victims.
- `typos`: keys without effect.
"""
