"""Leader election among the replicas of the controller. Only the leader writes.

Start with `election`. `lease` is the Lease as one candidate sees it. `certificates` keeps the webhook's certificate
valid, which only the leader does.
"""
