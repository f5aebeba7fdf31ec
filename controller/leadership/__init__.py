"""One controller leads, the others wait; and what only the leader does for the installation.

Start with `election`; `lease` is the Lease as one candidate sees it, `certificates` keeps the webhook's.
"""
