"""Checks a cluster for faults that would affect gangs, before a gang is affected (`phalanx doctor`).

The input is a snapshot, with the topologies and the objects that ask for gangs. The output is `finding.Finding`s. Start
with `checkup`.
"""
