"""How long pods take from their creation to their nodes on a real control plane: with Phalanx, and as no gang at all.

Start with `__main__`. `load` has the nodes and the pods, `modes` brings one lot of pods to their nodes,
`machine_usage` says what the servers use meanwhile, `report` puts the rounds together.
"""
