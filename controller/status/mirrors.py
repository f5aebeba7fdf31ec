"""Defines mirrors: Gang objects that the controller creates for gangs of other dialects, to show all gangs in one form.

Computes from the existing Gang objects and the gangs which mirrors must be created, changed or deleted. Reads and
writes nothing in the cluster. The annotation `phalanx.dev/mirrors` names the gang that an object mirrors. A mark
in its status says that Phalanx created it (`gangs.mirrors`). The owner of a mirror is the object that asked for the
gang, so that the garbage collector deletes both.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import count
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from gangs.mirrors import claimed_key, is_marked, key_text
from gangs.model import Gang, GangKey, Manifest, MultipleRule, ObjectRef, PodSet
from kube.catalog import Catalog
from kube.keys import API_VERSION, DIALECT, GROUP, MIRRORS
from kube.objects import NodeAffinity

GANG_KIND = "Gang"

NamespacedName = tuple[str, str]
"""The namespace and the name of a Gang object, which may not exist yet."""

_NAME_LENGTH = 253
_NOT_IN_NAMES = re.compile(r"[^a-z0-9.-]+")


def is_mirrored(gang: Gang) -> bool:
    """Return whether the gang needs a mirror, because no Gang object of a user asked for it."""
    return (gang.source.api_version, gang.source.kind) != (API_VERSION, GANG_KIND)


def mark_of(gang: Gang) -> str:
    """Return the value of `status.mirrors` in the gang's mirror: the mark of Phalanx, which names the gang. "" if the
    gang has no mirror.
    """
    return key_text(gang.key) if is_mirrored(gang) else ""


def namespaced_name_of(manifest: Manifest) -> NamespacedName:
    """Return the namespace and name of a Gang object."""
    metadata = manifest["metadata"]
    return metadata["namespace"], metadata["name"]


class Unmarked(NamedTuple):
    """A mirror that this process created, and whose status may not yet have the mark of Phalanx (`status.mirrors`).

    The mark is written with the first status. Until then the mirror is known by its `uid`.
    """

    place: NamespacedName
    uid: str


class GangObjects:
    """The Gang objects of the cluster, by name and by mirrored gang, with the changes that this reconcile has made.

    A look-up takes constant time. Use an object from one thread at a time.
    """

    def __init__(self, catalog: Catalog, unmarked: Mapping[GangKey, Unmarked] = MappingProxyType({})) -> None:
        """Start with the Gang objects of the catalog.

        :param unmarked: by gang: mirrors that this process has created and that may have no mark yet.
        """
        self._catalog = catalog
        self._unmarked = unmarked
        self._made: dict[NamespacedName, Manifest] = {}
        self._made_for: dict[GangKey, set[NamespacedName]] = {}
        self._deleted: set[NamespacedName] = set()

    def at(self, place: NamespacedName) -> Manifest | None:
        """Return the Gang object with this namespace and name; None if there is none."""
        if place in self._deleted:
            return None
        return self._made.get(place) or self._catalog.get((GROUP, GANG_KIND, *place))

    def mirroring(self, key: GangKey) -> list[NamespacedName]:
        """Return the namespaces and names of all mirrors of a gang, sorted. More than one is an error to repair."""
        found = {namespaced_name_of(each) for each in self._catalog.sought(GROUP, GANG_KIND, _mirrored_in, key)}
        found |= self._made_for.get(key, set())
        if (made := self._unmarked.get(key)) is not None and self._is(made):
            found.add(made.place)
        return sorted(found - self._deleted)

    def left_behind(self, key: GangKey) -> list[NamespacedName]:
        """Return the namespaces and names of the objects that look like mirrors of a gang that got no status, sorted.

        The controller leaves such an object if the gang ends between the creation of its mirror and the first status.
        """
        found = {namespaced_name_of(each) for each in self._catalog.sought(GROUP, GANG_KIND, _left_behind_for, key)}
        return sorted(found - self._deleted)

    def _is(self, made: Unmarked) -> bool:
        there = self.at(made.place)
        return there is not None and there["metadata"].get("uid") == made.uid

    def add(self, manifest: Manifest) -> None:
        """Record an object that is created now, so that no other object takes its name."""
        place, key = namespaced_name_of(manifest), claimed_key(manifest)
        self._made[place] = manifest
        if key is not None:
            self._made_for.setdefault(key, set()).add(place)

    def delete(self, manifest: Manifest) -> None:
        """Record that an object is deleted now, so that later look-ups do not return it."""
        self._made.pop(namespaced_name_of(manifest), None)
        self._deleted.add(namespaced_name_of(manifest))


def _mirrored_in(manifest: Manifest) -> tuple[GangKey, ...]:
    """Return the gang that a mirror shows. Empty for a Gang object without the mark of Phalanx (`status.mirrors`).

    Any user can write the annotation `phalanx.dev/mirrors`, so the annotation alone does not count.
    """
    key = claimed_key(manifest) if is_marked(manifest) else None
    return () if key is None else (key,)


def _left_behind_for(manifest: Manifest) -> tuple[GangKey, ...]:
    """Return the gang whose mirror this object would be if the controller had written its first status; else empty.

    The object is in the gang's own namespace and names the gang in its annotation. It has the label that the controller
    writes, and no status.
    """
    key, metadata = claimed_key(manifest), manifest.get("metadata") or {}
    if key is None or manifest.get("status") or metadata.get("namespace") != key.namespace:
        return ()
    return (key,) if (metadata.get("labels") or {}).get(DIALECT) == key.dialect else ()


def mirror_name(gang: Gang, existing: GangObjects) -> NamespacedName:
    """Return the namespace and name of the gang's mirror.

    An existing mirror keeps its name. A new mirror gets the name of the object that asked for the gang, in that
    object's namespace; if the name is taken, it is called `<kind>-<name>`. The mirror of a gang that only its pods
    declare gets the gang's name, changed to a valid object name.

    Callers that create several mirrors add each to `existing` before they name the next one.
    """
    namespace = gang.source.namespace
    own = [name for within, name in existing.mirroring(gang.key) if within == namespace]
    base = _object_name(gang.shown_as) if gang.source.kind == "Pod" else gang.shown_as
    if own:
        return namespace, base if base in own else own[0]
    places = ((namespace, name) for name in _candidates(base, gang.source.kind.lower()))
    return next(place for place in places if _is_free(existing.at(place), gang, place))


def _is_free(there: Manifest | None, gang: Gang, place: NamespacedName) -> bool:
    """Return whether the gang's mirror may have this namespace and name.

    True if no Gang object has them, or if the object there is a mirror of this gang that lacks the mark of Phalanx. A
    controller leaves such an object if it dies, or gets no answer, before it writes the mark. The object is recognised
    by its annotation `phalanx.dev/mirrors`, and by one of two facts. Either its whole content is as wanted, or it has
    no status, the wanted labels, and the wanted owner or none.

    :param there: the present Gang object with this name; None if there is none.
    """
    if there is None or claimed_key(there) != gang.key:
        return there is None
    wanted = mirror_of(gang, place)
    owned = {"ownerReferences": wanted["metadata"].get("ownerReferences", [])}
    as_owned = there if there["metadata"].get("ownerReferences") else {"metadata": {**there["metadata"], **owned}}
    return not differs(there, wanted) or not (there.get("status") or _metadata_differs(as_owned, wanted))


def mirror_of(gang: Gang, place: NamespacedName) -> dict[str, Any]:
    """Return the wanted Gang object that mirrors `gang`, without a status.

    :param place: its namespace and name, from `mirror_name`.
    """
    namespace, name = place
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "labels": {DIALECT: gang.key.dialect},
        "annotations": {MIRRORS: key_text(gang.key)},
    }
    if gang.source.kind != "Pod" and gang.source.uid:
        metadata["ownerReferences"] = [_owner(gang.source)]
    return {"apiVersion": API_VERSION, "kind": GANG_KIND, "metadata": metadata, "spec": _spec(gang)}


def differs(existing: Manifest, wanted: Manifest) -> bool:
    """Return whether an existing mirror must be updated. Labels and annotations of other clients are ignored."""
    return _metadata_differs(existing, wanted) or existing.get("spec") != wanted["spec"]


def _metadata_differs(existing: Manifest, wanted: Manifest) -> bool:
    have, want = existing.get("metadata") or {}, wanted["metadata"]
    maps_hold = all(
        (have.get(part) or {}).get(key) == value
        for part in ("labels", "annotations")
        for key, value in want[part].items()
    )
    same_owner = (have.get("ownerReferences") or []) == want.get("ownerReferences", [])
    return not (maps_hold and same_owner)


def stale_mirrors(existing: GangObjects, key: GangKey, gang: Gang | None, *, kept: bool = False) -> list[Manifest]:
    """Return the obsolete mirrors of a gang, which are to be deleted.

    A mirror is obsolete if the gang is gone, has another mirror, or is now shown by a Gang object of a user. If the
    gang is gone, objects that look like its mirrors but got no status are obsolete, too (`GangObjects.left_behind`).

    :param gang: None if the gang does not exist any more, or cannot be read.
    :param kept: whether the gang exists but cannot be read, because its request contradicts itself. Then its mirror
        stays and reports that.
    """
    if kept and gang is None:
        return []
    own = mirror_name(gang, existing) if gang is not None and is_mirrored(gang) else None
    places = {*existing.mirroring(key), *(existing.left_behind(key) if gang is None else ())}
    found = (existing.at(place) for place in sorted(places) if place != own)
    return [each for each in found if each is not None]


def _candidates(base: str, kind: str) -> Iterable[str]:
    yield base[:_NAME_LENGTH]
    prefixed = f"{kind}-{base}"[: _NAME_LENGTH - 8]
    yield prefixed
    yield from (f"{prefixed}-{number}" for number in count(2))


def _object_name(text: str) -> str:
    """Return a valid object name for any text: lower case letters, digits, dots and dashes."""
    return _NOT_IN_NAMES.sub("-", text.lower()).strip("-.") or "gang"


def _owner(source: ObjectRef) -> dict[str, Any]:
    return {
        "apiVersion": source.api_version,
        "kind": source.kind,
        "name": source.name,
        "uid": source.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def _spec(gang: Gang) -> dict[str, Any]:
    """Return the spec of the mirror: the constraints and preferences of the gang's placement request.

    `near` and `node_wishes` are left out, because they are not written by the user: they are derived from where other
    pods run and how large the nodes are. The plan in the status shows their effect.
    """
    spec = {
        "topology": gang.topology,
        "minMember": gang.min_member,
        "required": gang.required,
        "preferred": gang.preferred,
        "scheduleTimeoutSeconds": gang.schedule_timeout_seconds,
        "onFailure": gang.on_failure,
        "queue": gang.queue,
        "nodeAffinity": _as_stored(gang.node_affinity) if gang.node_affinity else None,
        "podSets": [_pod_set(each) for each in gang.pod_sets],
        "together": [{"podSets": list(each.pod_sets), "level": each.level} for each in gang.together],
        "multiples": _multiples(gang.multiples),
        "preempts": None if gang.preempts else False,
    }
    return _present(spec)


def _multiples(rules: Iterable[MultipleRule]) -> list[dict[str, Any]]:
    return [{"level": each.level, "of": each.of} for each in rules]


def _as_stored(affinity: NodeAffinity) -> Any:
    """Return the affinity in the form in which the API server returns it: dicts and lists.

    In any other form it would differ from the stored one, and each reconcile would write it again.
    """
    return msgspec.json.decode(msgspec.json.encode(affinity))


def _pod_set(pod_set: PodSet) -> dict[str, Any]:
    return _present(
        {
            "name": pod_set.name,
            "count": pod_set.count,
            "minCount": pod_set.min_count,
            "required": pod_set.required,
            "preferred": pod_set.preferred,
            "slices": [{"level": each.level, "size": each.size} for each in pod_set.slices],
            "multiples": _multiples(pod_set.multiples),
            "maxPerDomain": [{"level": each.level, "count": each.count} for each in pod_set.max_per_domain],
        }
    )


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields without those that are None or an empty list, which mirrors do not contain."""
    return {key: value for key, value in fields.items() if value not in (None, [])}
