"""The guide's KAI Scheduler: PodGroups with a topology policy, pods that name a policy, and the policies' ConfigMap."""

NAME = "kai"
