"""The Kubernetes objects that Phalanx reads, decoded into small structs, and the functions that need only one object.

Examples of such functions: a pod's requests, a quantity as an integer. The package does no I/O.
"""
