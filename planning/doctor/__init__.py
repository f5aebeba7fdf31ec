"""Checks a cluster for faults that would affect gangs, before a gang is affected (`phalanx doctor`).

The input is a snapshot with its topologies and requests; the output is `finding.Finding`s. Start with `checkup`.
"""
