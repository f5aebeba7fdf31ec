"""Types of the API server's responses about a resource: pages of a list, events of a watch, and served resources."""

from typing import Generic, TypeVar

import msgspec

from kube.objects import Struct

T = TypeVar("T")


class ListMeta(Struct, frozen=True):
    """The resource version of a list or an object, and the token for the next page ("" for the last page)."""

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
    """Any object, of which only its resource version is decoded."""

    metadata: ListMeta = ListMeta()


class ServedResource(Struct, frozen=True):
    """One resource that an API server serves in a version of a group (`APIResource`)."""

    name: str = ""
    kind: str = ""
    namespaced: bool = True


class ServedResources(Struct, frozen=True):
    """All resources that an API server serves in a version of a group (`APIResourceList`)."""

    resources: tuple[ServedResource, ...] = ()
