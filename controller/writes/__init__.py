"""Every write that the controller makes: one request each, sent only during the leader's term (fencing).

Start with `writer`; `read_your_writes` waits until the watch caches show what was written.
"""
