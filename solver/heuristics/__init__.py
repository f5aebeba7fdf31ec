"""Greedy plans without proof: results at an early time, and a fallback if time runs out.

The input is an `instance.Instance`. The results are plans, each better than the one before. Start with `incumbent`,
which keeps the best plan. `greedy` builds plans by placing `blocks` of members one after the other (`block_by_block`).
It uses the state of the nodes (`remaining_room`, `running_pods`) and limits of groups (`rule_limits`). `packing` places
as many members as possible in a domain.
"""
