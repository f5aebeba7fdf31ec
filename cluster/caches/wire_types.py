"""What an API server sends about a resource: pages of a list, events of a watch, and what is served at all."""

from typing import Generic, TypeVar

import msgspec

from kube.objects import Struct

T = TypeVar("T")


class ListMeta(Struct, frozen=True):
    """Where a list or an object stands, and whether more of the list is to come."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(Struct, Generic[T], frozen=True):
    """A part of a list."""

    api_version: str = ""
    metadata: ListMeta = ListMeta()
    items: tuple[T, ...] = ()


class WatchEvent(Struct, frozen=True):
    """A line of a watch."""

    type: str
    object: msgspec.Raw


class Versioned(Struct, frozen=True):
    """Any object, of which only its version is looked at."""

    metadata: ListMeta = ListMeta()


class ServedResource(Struct, frozen=True):
    """An entry of what an API server serves in a version of a group (`APIResource`)."""

    name: str = ""
    kind: str = ""
    namespaced: bool = True


class ServedResources(Struct, frozen=True):
    """All of it (`APIResourceList`)."""

    resources: tuple[ServedResource, ...] = ()
