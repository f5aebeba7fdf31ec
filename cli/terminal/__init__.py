"""What people look at: the gangs, the topology, a gang's story; once or as it changes, as a table or as data.

One command a module, each reads the live cluster as its caller; `domains` is what `topology` shows.
"""
