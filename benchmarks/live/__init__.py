"""How long pods take from their creation to their nodes on a real control plane: with Phalanx, and without a gang.

Start with `__main__`. `load` has the nodes and the pods. `modes` measures one lot of pods. `machine_usage` measures
what the servers use meanwhile. `report` puts the rounds together.
"""
