"""KAI Scheduler's way of asking: PodGroups with a topology policy, pods that name a policy, the policies' ConfigMap.

As the guide to topology-aware scheduling has it whose manifests are in examples/kai, and as KAI Scheduler itself writes
PodGroups. Where the two differ: docs/reference/keys/kai.md.
"""

NAME = "kai"
