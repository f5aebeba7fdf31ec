"""Eligibility: which nodes a pod may use by kube-scheduler's rules, without regard to capacity.

The input is pods and a snapshot. The output is the excluded nodes, each with a reason. Start with `nodes`, which
evaluates all rules. `taints`, `host_ports` and `pod_affinity` (with anti-affinity and topology spread) implement the
single rules, and `member_rules` the rules between members of one gang.
"""
