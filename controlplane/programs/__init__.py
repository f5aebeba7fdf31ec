"""The programs of a control plane, built from pinned modules into the user's cache.

Start with `binaries`. `toolchain` finds a Go toolchain. `other_versions` builds older Kubernetes versions and the next
one.
"""
