"""The programs of a control plane, built from pinned modules into the user's cache.

Start with `binaries`. `toolchain` finds a Go toolchain, and `previous_version` builds the previous Kubernetes version.
"""
