"""Checks a cluster for faults that would affect gangs, before a gang meets them.

The input is a snapshot with its topologies and requests; the output is `finding.Finding`s. Start with `checkup`.
"""
