"""Measures how long pods take from their creation until they are bound, on a real control plane, with Phalanx and
without.

Start with `__main__`. `load` has the nodes and the pods. `modes` measures one lot: pods of one mode (such as a gang, or
ungrouped pods) that are created together. `machine_usage` measures the CPU and memory of the servers meanwhile.
`figures` combines the rounds of a run, and `report` formats the results. `many_gangs` measures many gangs that are
created at once.
"""
