"""Runs the solver in separate processes, so that a crash of a process does not affect its caller.

The input is a `Problem`. The output is a verified answer in time, or an unproven result. Start with `pool`. `worker` is
the process, `tasks` holds the messages, `pipes` their transport, and `node_layouts` sends a problem's node layout only
once.
"""
