"""Host ports: two pods on one node cannot use the same host port (kube-scheduler's NodePorts)."""

from collections.abc import Iterable
from dataclasses import dataclass

from kube.objects import ContainerPort, Pod

_ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - the API's own word for "all addresses", nothing is bound here


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node that a pod uses. The `address` "0.0.0.0" means all addresses of the node."""

    address: str
    protocol: str
    port: int

    def clashes(self, other: "HostPort") -> bool:
        """Whether two pods with these host ports cannot run on one node."""
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return self.address == other.address or _ANY_ADDRESS in (self.address, other.address)


def host_ports(pod: Pod) -> frozenset[HostPort]:
    """Return the host ports of a pod's containers and sidecars, as the stock scheduler counts them.

    For a pod with `hostNetwork` each container port counts, because the API server copies it to the host port.
    """
    if not (pod.spec.init_containers or any(each.ports for each in pod.spec.containers)):
        return _NONE
    sidecars = (each for each in pod.spec.init_containers if each.restart_policy == "Always")
    return frozenset(
        HostPort(port.host_ip or _ANY_ADDRESS, port.protocol or "TCP", number)
        for container in (*pod.spec.containers, *sidecars)
        for port in container.ports
        if (number := _number(port, host_network=pod.spec.host_network))
    )


def _number(port: ContainerPort, *, host_network: bool) -> int:
    return port.host_port or (port.container_port if host_network else 0)


_NONE: frozenset[HostPort] = frozenset()


def any_clash(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> bool:
    """Whether any wanted host port clashes with one that is taken on the node."""
    held = tuple(taken)
    return any(port.clashes(other) for port in wanted for other in held)
