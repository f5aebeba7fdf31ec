"""Reads files into Kubernetes objects, as strictly as the API server validates them.

The input is text. The output is typed objects, and every mistake with its object and field. Start with `objects`.
"""
