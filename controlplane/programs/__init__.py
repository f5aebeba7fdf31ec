"""The programs that a control plane is made of: pinned modules come in, out go executables in the user's cache.

Start with `binaries`; `toolchain` finds a Go to build them with, `previous_version` builds the Kubernetes before.
"""
