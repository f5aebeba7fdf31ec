"""The incremental reading of all gangs: from changes of pods and objects to the gangs whose reading changes.

Start with `gang_store`. `pods` indexes pods by the gangs and Jobs that they name. `dependencies` records the inputs of
each reading, so that a gang is read again only when one of its inputs changes.
"""
