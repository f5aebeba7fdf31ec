"""Which nodes a pod may use, as kube-scheduler sees it, room aside: pods and a snapshot come in, out go exclusions.

Start with `nodes`, which asks all rules; `taints`, `host_ports` and `pod_affinity` (with anti-affinity and topology
spread) hold one each, `member_rules` those that members of one gang have for each other.
"""
