"""Requests of the commands to the live cluster: reading objects, following changes, completing names.

Start with `api_requests`. `watching` follows changes, `offered_names` makes the suggestions of shell completion, and
`progress` shows that a command is still working.
"""
