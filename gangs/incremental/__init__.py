"""All gangs of a cluster, kept up to date: when a pod or object changes, only the gangs that depend on it are read.

To read a gang means to derive it, with faults and advice, from pods and objects (`gangs.model.Reading`). Start with
`gang_store`. `pods` indexes pods by the gangs and Jobs that they name. `dependencies` records the inputs of each
reading, so that a gang is read again only when one of its inputs changes.
"""
