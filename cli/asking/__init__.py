"""Asking the live cluster on behalf of somebody at a terminal: requests go out, objects, changes and names come in.

Start with `api_requests`; `watching` goes on asking, `offered_names` offers what a shell may complete, `progress`
shows that something goes on.
"""
