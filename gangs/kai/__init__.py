"""KAI Scheduler's dialect: PodGroups, pods that name a topology policy, and the ConfigMap with these policies.

It follows the guide to topology-aware scheduling whose manifests are in examples/kai ("the guide"), and the PodGroups
that KAI Scheduler itself writes. docs/reference/keys/kai.md lists the differences between the two.
"""

NAME = "kai"
