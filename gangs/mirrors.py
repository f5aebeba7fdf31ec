"""Mirrors: Gang objects that the controller creates to show a gang that another object asks for.

The annotation `phalanx.dev/mirrors` of a Gang object names the gang that the object should mirror. Every user who may
write Gang objects can write the annotation, but only the controller can write their status. Therefore the controller
repeats the value of the annotation in the field `status.mirrors`. It overwrites and deletes only objects in which
annotation and status agree (docs/decisions/0013). If the policy `phalanx-mirrors` is installed, only the controller can
write the annotation, too.
"""

from collections.abc import Mapping

from gangs.model import GangKey, Manifest
from kube.keys import MIRRORS

MARK = "mirrors"
"""The field of a Gang's status in which the controller repeats the annotation `phalanx.dev/mirrors`."""


def key_text(key: GangKey) -> str:
    """Return the gang's key as `dialect/namespace/name`, the form in which mirrors store it in the annotation
    `phalanx.dev/mirrors` and in `status.mirrors`.
    """
    return f"{key.dialect}/{key.namespace}/{key.name}"


def claim_of(manifest: Manifest) -> str:
    """Return the value of a Gang object's annotation `phalanx.dev/mirrors`; "" if it has none. Gang objects that users
    write for their own pods have none.
    """
    return str(((manifest.get("metadata") or {}).get("annotations") or {}).get(MIRRORS, ""))


def is_marked(manifest: Manifest) -> bool:
    """Whether the controller has confirmed, by a mark in the status, that a Gang object is a mirror.

    It has if `status.mirrors` equals the annotation `phalanx.dev/mirrors`. For an object without the annotation the
    result is False.
    """
    claim = claim_of(manifest)
    return bool(claim) and (manifest.get("status") or {}).get(MARK) == claim


def claimed_key(manifest: Manifest) -> GangKey | None:
    """Return the gang that a Gang object's annotation `phalanx.dev/mirrors` names, whether or not the controller has
    confirmed it; None without the annotation.
    """
    dialect, _, rest = claim_of(manifest).partition("/")
    namespace, _, name = rest.partition("/")
    return GangKey(dialect, namespace, name) if name else None


def mirrored_key(manifest: Manifest) -> GangKey | None:
    """Return the gang that a Gang object mirrors; None for a Gang that a user wrote.

    If the controller has not confirmed that the object is a mirror, its annotation `phalanx.dev/mirrors` counts only in
    the gang's own namespace. A user who can write in this namespace can write the gang itself.
    """
    key = claimed_key(manifest)
    beside = key is not None and key.namespace == (manifest.get("metadata") or {}).get("namespace")
    return key if beside or is_marked(manifest) else None


def flavors_in_force(gang: Manifest) -> tuple[str, ...]:
    """Return the flavors that a gang's plan in force uses, from the status of its Gang object; empty if unknown."""
    status = gang.get("status")
    flavors = status.get("flavors") if isinstance(status, Mapping) else None
    return tuple(each for each in flavors if isinstance(each, str)) if isinstance(flavors, list | tuple) else ()
