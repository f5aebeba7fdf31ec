"""Types of the API server's responses about a resource: pages of a list, events of a watch, and served resources."""

from typing import Generic, TypeVar

import msgspec

from kube.objects import Struct

T = TypeVar("T")


class ListMeta(Struct, frozen=True):
    """The metadata of a list or an object. `continue_`: the token for the next page of a list; "" on the last page."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(Struct, Generic[T], frozen=True):
    """One page of a list of objects, as the API server returns it."""

    api_version: str = ""
    metadata: ListMeta = ListMeta()
    items: tuple[T, ...] = ()


class WatchEvent(Struct, Generic[T], frozen=True):
    """One event of a watch, as the API server sends it on one line. In an error, `object` is a Status."""

    type: str
    object: T


class Versioned(Struct, frozen=True):
    """An object of which only the resource version is decoded, such as a bookmark."""

    metadata: ListMeta = ListMeta()


class ServedResource(Struct, frozen=True):
    """One resource that an API server serves in a version of a group (`APIResource`)."""

    name: str = ""
    kind: str = ""
    namespaced: bool = True


class ServedResources(Struct, frozen=True):
    """All resources that an API server serves in a version of a group (`APIResourceList`)."""

    resources: tuple[ServedResource, ...] = ()
