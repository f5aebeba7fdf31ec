"""A real Kubernetes control plane on one machine: etcd, API server, scheduler, controller-manager, and kwok for nodes.

For the demo and the tests, and no part of the installed package. Built from pinned modules, started and stopped as one
thing, on loopback. Start with `control_plane`; `deployment` installs Phalanx on one, for `demo` and `scenarios`. The
rooms: `running` (programs as processes) and `programs` (how they are built).
"""
