"""Expected pods that a workload creates only when others of its pods run, and the reserved capacity for them.

Start with `start_order` (which roles wait for which). `pods_to_come` constructs the expected pods. `held_room` decides
whether capacity is reserved for them. `made_again` constructs the expected pods that replace lost pods.
"""
