"""How a gang stands and what has happened to it, from what the cluster says: for a terminal and for the page.

`facts` is what is known and the lines that tell it, `timeline` its steps in their order, `line` its place among those
that wait, `history` asks for the events.
"""
