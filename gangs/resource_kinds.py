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
    """Which of them are worth keeping; None: all of them."""
    describes: str = ""
    """Of a kind whose objects users mean as topologies: the `kind` of these (`kube.topology.Topology`)."""

    taught: "Callable[[Sequence[Manifest]], Iterable[ResourceKind]] | None" = field(default=None, compare=False)
    """Of a kind whose objects each describe a further kind to be watched: which; None: they describe none."""
    as_read: Callable[[Manifest], Manifest] | None = field(default=None, compare=False)
    """What is kept of an object; None: the object as it is."""

    @property
    def resources(self) -> tuple[str, str]:
        """How kubectl takes the kind with its group, and how it tells it: `pods.example.com`, `pod.example.com`."""
        return f"{self.plural}.{self.group}", f"{self.kind.lower()}.{self.group}"
