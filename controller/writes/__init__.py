"""Every write that the controller makes. Each is one request that is sent only during the leader's term (fencing).

Start with `writer`; `read_your_writes` waits until the watch caches show what was written.
"""
