"""Which Gang objects are mirrors: made by the controller to show a gang that another object asked for.

The annotation `phalanx.dev/mirrors` says whose mirror an object claims to be. Whoever may write Gang objects could
write it; nobody but the controller can write their status. There it repeats what the annotation says, and only an
object that bears this mark is ever overwritten or deleted (docs/decisions/0013). Where the policy `phalanx-mirrors` is
installed, the annotation itself is the controller's alone.
"""

from collections.abc import Mapping

from gangs.model import GangKey, Manifest
from kube.keys import MIRRORS

MARK = "mirrors"
"""The field of a Gang's status that repeats the annotation."""


def key_text(key: GangKey) -> str:
    """How the annotation and the mark write a gang: `dialect/namespace/name`."""
    return f"{key.dialect}/{key.namespace}/{key.name}"


def claim_of(manifest: Manifest) -> str:
    """What a Gang object's annotation claims; "" for one that a user wrote."""
    return str(((manifest.get("metadata") or {}).get("annotations") or {}).get(MIRRORS, ""))


def is_marked(manifest: Manifest) -> bool:
    """Whether the controller itself has said that the object is the mirror that it claims to be."""
    claim = claim_of(manifest)
    return bool(claim) and (manifest.get("status") or {}).get(MARK) == claim


def claimed_key(manifest: Manifest) -> GangKey | None:
    """The gang that a Gang object claims to mirror, whoever wrote that."""
    dialect, _, rest = claim_of(manifest).partition("/")
    namespace, _, name = rest.partition("/")
    return GangKey(dialect, namespace, name) if name else None


def mirrored_key(manifest: Manifest) -> GangKey | None:
    """The gang that a Gang object mirrors; None for one that a user wrote.

    What has no mark (yet) counts in the gang's own namespace at most: whoever can write there can write the gang.
    """
    key = claimed_key(manifest)
    beside = key is not None and key.namespace == (manifest.get("metadata") or {}).get("namespace")
    return key if beside or is_marked(manifest) else None


def flavors_in_force(gang: Manifest) -> tuple[str, ...]:
    """The flavors that the gang's plan in force uses, as its Gang object tells, which need not be a mirror."""
    status = gang.get("status")
    flavors = status.get("flavors") if isinstance(status, Mapping) else None
    return tuple(each for each in flavors if isinstance(each, str)) if isinstance(flavors, list | tuple) else ()
