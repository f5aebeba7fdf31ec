"""The plain manifests that an installation applies to a cluster.

The folder is a Python package, so that the program finds the manifests wherever it is installed.
"""
