"""The state and history of a gang, read from the cluster, for the terminal and for the live page of `phalanx ui`.

`facts` holds the known facts and the lines that show them, and `timeline` the steps of the history in their order.
`line` computes the gang's position among the waiting gangs. `history` reads the events.
"""
