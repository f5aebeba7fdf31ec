"""Lists all objects that etcd stores, with one request to etcd. By the API server, one request for each kind would be
needed.
"""

from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import urllib3

_ROOT = "/registry/"
_SECONDS = 30.0
_IN_TWO_PARTS = ("services",)
"""Kinds of the core group whose key in etcd has two parts: services/specs, services/endpoints."""


class Stored(NamedTuple):
    """The name of a stored object, and its namespace ("" for a cluster-scoped object)."""

    namespace: str
    name: str


def stored_objects(etcd_url: str) -> Mapping[str, list[Stored]]:
    """Return all objects that etcd stores, by kind. A kind without objects is missing.

    Kinds have their names in etcd: `pods`, `minions` (nodes), `services/specs`, `ray.io/rayclusters`.
    :raises urllib3.exceptions.HTTPError: etcd does not answer.
    """
    wanted = {"key": _encoded(_ROOT), "range_end": _encoded(_ROOT[:-1] + chr(ord(_ROOT[-1]) + 1)), "keys_only": True}
    answer = urllib3.request("POST", f"{etcd_url}/v3/kv/range", json=wanted, timeout=_SECONDS).json()
    found: dict[str, list[Stored]] = defaultdict(list)
    for each in answer.get("kvs", ()):
        kind, stored = _split(b64decode(each["key"]).decode())
        found[kind].append(stored)
    return found


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


def _split(key: str) -> tuple[str, Stored]:
    parts = key.removeprefix(_ROOT).split("/")
    depth = 2 if "." in parts[0] or parts[0] in _IN_TWO_PARTS else 1
    *namespace, name = parts[depth:] or [""]
    return "/".join(parts[:depth]), Stored("/".join(namespace), name)
