"""Every write that the controller makes: one request each, fenced by its lease, answered by a value.

Start with `writer`; `read_your_writes` waits until the watch caches show what was written.
"""
