"""Host ports: two pods of one node cannot have the same (kube-scheduler's NodePorts)."""

from collections.abc import Iterable
from dataclasses import dataclass

from kube.objects import ContainerPort, Pod

_ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - the API's own word for "all addresses", nothing is bound here


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node that a pod takes. The `address` "0.0.0.0" means all addresses."""

    address: str
    protocol: str
    port: int

    def clashes(self, other: "HostPort") -> bool:
        """Whether the two cannot be on one node."""
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return self.address == other.address or _ANY_ADDRESS in (self.address, other.address)


def host_ports(pod: Pod) -> frozenset[HostPort]:
    """The host ports of a pod: of its containers and its sidecars, as the stock scheduler counts them.

    Under `hostNetwork` the API server copies each container port to the host port; files are read the same way.
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
    """Whether any two of them cannot be on one node."""
    held = tuple(taken)
    return any(port.clashes(other) for port in wanted for other in held)
