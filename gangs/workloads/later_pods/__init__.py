"""Pods that a workload makes only when others of it run: it comes in, out go these pods and whether room is held.

Start with `start_order` (which roles wait for which). `pods_to_come` makes up the pods that do not exist yet;
`held_room` says whether room is held for them, and what to do where it is not.
"""
