"""The description of a kind whose objects Phalanx reads from the API server, and which of its objects it keeps."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from gangs.model import Manifest


@dataclass(frozen=True, slots=True, order=True)
class ResourceKind:
    """A kind of objects that Phalanx reads from the API server.

    `group`: the API group; "" for the core group. `versions`: the versions that Phalanx reads, the newest first.
    `plural`: the resource name in the API path.
    """

    group: str
    versions: tuple[str, ...]
    kind: str
    plural: str
    namespaced: bool = True
    only: tuple[str, str] | None = None
    """(namespace, name) of the only object of this kind that is read; None: all objects are read."""
    keeps: Callable[[Manifest], bool] | None = field(default=None, compare=False)
    """A function that returns whether an object is kept in memory; None: all objects are kept."""
    describes: str = ""
    """The value of `kube.topology.Topology.kind` for topologies that objects of this kind describe; "": they describe
    none."""

    user_defined: "Callable[[Sequence[Manifest]], Iterable[ResourceKind]] | None" = field(default=None, compare=False)
    """A function from all objects of this kind to the further kinds that they describe and that must be watched.

    Only WorkloadKind has one; None: the objects describe no kinds.
    """
    as_read: Callable[[Manifest], Manifest] | None = field(default=None, compare=False)
    """A function from an object to the part of it that is kept in memory; None: the whole object is kept."""

    @property
    def resources(self) -> tuple[str, str]:
        """The names of the kind in kubectl, with its group: as it accepts it and as it prints it.

        Example: ("topologies.kueue.x-k8s.io", "topology.kueue.x-k8s.io").
        """
        return f"{self.plural}.{self.group}", f"{self.kind.lower()}.{self.group}"
