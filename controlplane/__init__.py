"""A real Kubernetes control plane on one machine: etcd, API server, scheduler, controller-manager, and kwok for nodes.

For the demo and the tests. Built from pinned modules, started and stopped as one thing, on loopback.
"""
