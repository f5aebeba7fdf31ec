"""Asking the live cluster on behalf of somebody at a terminal: requests go out, objects, changes and names come in.

Start with `requests`; `watching` goes on asking, `names` offers what a shell may complete, `progress` shows that
something goes on.
"""
