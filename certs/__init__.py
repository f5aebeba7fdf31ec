"""The CA and the serving certificate of the webhook: how they are issued, renewed, stored and trusted.

Start with `cluster_edge`, which writes them to the Secret and to the webhook configurations. `rotation` decides which
step is due, and `authority` issues certificates. `files` writes certificates to files.
"""
