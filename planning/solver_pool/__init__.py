"""The solver in processes of its own, so that nothing that becomes of one reaches its caller.

In comes a `Problem`; out comes a verified answer in time, or an honest "not known". Start with `pool`; `worker` is the
process, `tasks` what both say, `pipes` how, `node_layouts` how a problem's nodes are told once.
"""
