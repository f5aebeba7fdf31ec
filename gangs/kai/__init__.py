"""The dialect of KAI Scheduler: PodGroups with a topology policy, pods that name a policy, and the policies' ConfigMap.

It follows the guide to topology-aware scheduling, whose manifests are in examples/kai, and the PodGroups that KAI
Scheduler itself writes. docs/reference/keys/kai.md lists the differences between the two.
"""

NAME = "kai"
