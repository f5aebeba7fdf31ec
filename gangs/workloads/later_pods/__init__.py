"""Expected pods that a workload creates only after others of its pods run, and the capacity reserved for them.

Start with `start_order` (which pods are created later). `pods_to_come` constructs the expected pods. `held_room`
decides whether capacity is reserved for them. `made_again` constructs the expected pods that replace lost pods.
"""
