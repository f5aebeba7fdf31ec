"""Kinds of objects that are read from the API server, and which of their objects."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from gangs.model import Manifest


@dataclass(frozen=True, slots=True, order=True)
class ResourceKind:
    """A kind of object: `group` ("" = core), served `versions` newest first, `kind`, `plural`."""

    group: str
    versions: tuple[str, ...]
    kind: str
    plural: str
    namespaced: bool = True
    only: tuple[str, str] | None = None
    """(namespace, name) of the one object of this kind that is read; None: all of them."""
    keeps: Callable[[Manifest], bool] | None = field(default=None, compare=False)
    """Selects the objects that are kept in memory; None: all of them."""
    describes: str = ""
    """For a kind whose objects describe topologies: the `kind` of these topologies (`kube.topology.Topology`)."""

    user_defined: "Callable[[Sequence[Manifest]], Iterable[ResourceKind]] | None" = field(default=None, compare=False)
    """For a kind whose objects describe further kinds: returns the kinds to watch; None: they describe none."""
    as_read: Callable[[Manifest], Manifest] | None = field(default=None, compare=False)
    """Returns the part of an object that is kept in memory; None: the whole object is kept."""

    @property
    def resources(self) -> tuple[str, str]:
        """The kind with its group as kubectl accepts and as it prints it: `pods.example.com`, `pod.example.com`."""
        return f"{self.plural}.{self.group}", f"{self.kind.lower()}.{self.group}"
