"""What is wrong with a cluster before anybody's gang meets it.

In comes a snapshot with its topologies and requests; out come `finding.Finding`s. Start with `checkup`.
"""
