"""Every write that the controller makes: one request each, fenced by its lease, answered by a value.

Start with `writer`; `echo` waits until the watch caches show what was written.
"""
