"""A real Kubernetes control plane on one machine: etcd, API server, scheduler, controller-manager, and kwok for nodes.

It serves the demo and the tests, and is no part of the installed package. Its programs are built from pinned modules,
and started and stopped together, on loopback. Start with `control_plane`; `deployment` installs Phalanx on one, for
`demo` and `scenarios`. The rooms: `running` (programs as processes) and `programs` (how they are built).
"""
