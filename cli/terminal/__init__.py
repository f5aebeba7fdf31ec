"""Commands that show the live cluster: gangs, topologies, queues and the history of a gang, as a table or as data.

Each module has one command, which reads the cluster with the caller's permissions, once or with `--watch`. `domains`
computes the data of `topology`.
"""
