"""Gang objects for gangs that were asked for in another way: one object shows every gang, whatever its dialect.

Pure: what exists and what should, as manifests. The annotation `phalanx.dev/mirrors` says whose mirror an object is,
and a mark in its status that we made it (`gangs.mirrors`); its owner is the object that asked, so that the garbage
collector takes the mirror with it.
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

Place = tuple[str, str]
"""(namespace, name) of a Gang object."""

_NAME_LENGTH = 253
_NOT_IN_NAMES = re.compile(r"[^a-z0-9.-]+")


def is_mirrored(gang: Gang) -> bool:
    """Whether the gang needs a mirror: it was not asked for by a Gang object of our own."""
    return (gang.source.api_version, gang.source.kind) != (API_VERSION, GANG_KIND)


def mark_of(gang: Gang) -> str:
    """What the status of the gang's object says of whose mirror it is; "" where it is none."""
    return key_text(gang.key) if is_mirrored(gang) else ""


def place_of(manifest: Manifest) -> Place:
    """Where a Gang object is."""
    metadata = manifest["metadata"]
    return metadata["namespace"], metadata["name"]


class Unmarked(NamedTuple):
    """A mirror that this process has made. Its mark comes with its first status, and the gang may change before."""

    place: Place
    uid: str


class GangObjects:
    """The Gang objects there are, found by their place or by the gang that they mirror, and what is made of them.

    To find one costs no look at the others, however many there are. Not safe for use from several threads at once.
    """

    def __init__(self, catalog: Catalog, unmarked: Mapping[GangKey, Unmarked] = MappingProxyType({})) -> None:
        """Of a cluster, and of mirrors that this process knows to be its own though they may have no mark yet."""
        self._catalog = catalog
        self._unmarked = unmarked
        self._made: dict[Place, Manifest] = {}
        self._made_for: dict[GangKey, set[Place]] = {}
        self._deleted: set[Place] = set()

    def at(self, place: Place) -> Manifest | None:
        """The object there, None where there is none."""
        if place in self._deleted:
            return None
        return self._made.get(place) or self._catalog.get((GROUP, GANG_KIND, *place))

    def mirroring(self, key: GangKey) -> list[Place]:
        """The places of all mirrors of a gang, in order; there should be one."""
        found = {place_of(each) for each in self._catalog.sought(GROUP, GANG_KIND, _mirrored_in, key)}
        found |= self._made_for.get(key, set())
        if (made := self._unmarked.get(key)) is not None and self._is(made):
            found.add(made.place)
        return sorted(found - self._deleted)

    def _is(self, made: Unmarked) -> bool:
        there = self.at(made.place)
        return there is not None and there["metadata"].get("uid") == made.uid

    def add(self, manifest: Manifest) -> None:
        """An object is made, so that no other takes its name."""
        place, key = place_of(manifest), claimed_key(manifest)
        self._made[place] = manifest
        if key is not None:
            self._made_for.setdefault(key, set()).add(place)

    def delete(self, manifest: Manifest) -> None:
        """An object is gone."""
        self._made.pop(place_of(manifest), None)
        self._deleted.add(place_of(manifest))


def _mirrored_in(manifest: Manifest) -> tuple[GangKey, ...]:
    """The gang that a Gang object of ours mirrors; nothing for one that only claims to."""
    key = claimed_key(manifest) if is_marked(manifest) else None
    return () if key is None else (key,)


def mirror_place(gang: Gang, existing: GangObjects) -> Place:
    """The place of the gang's mirror: where it is, else beside its source and named like it.

    A mirror stands in the namespace of the object that asked, the first of several. It keeps its name; a new one is
    called `<kind>-<name>` where the source's name is taken. A gang declared on its pods alone is named after itself,
    as far as its name can be an object's. Callers that make several mirrors in one go add each to `existing` before
    they place the next.
    """
    namespace = gang.source.namespace
    own = [name for within, name in existing.mirroring(gang.key) if within == namespace]
    base = _object_name(gang.shown_as) if gang.source.kind == "Pod" else gang.shown_as
    if own:
        return namespace, base if base in own else own[0]
    places = ((namespace, name) for name in _candidates(base, gang.source.kind.lower()))
    return next(place for place in places if _is_free(existing.at(place), gang, place))


def _is_free(there: Manifest | None, gang: Gang, place: Place) -> bool:
    """Whether the gang's mirror may stand there: nothing does, or what would be made, to the letter.

    The latter was made by a controller that died before it could mark it.
    """
    return there is None or (claimed_key(there) == gang.key and not differs(there, mirror_of(gang, place)))


def mirror_of(gang: Gang, place: Place) -> dict[str, Any]:
    """The Gang object that mirrors `gang` at the place that `mirror_place` gave it, as it should be; no status."""
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
    """Whether an existing mirror has to be written again. Labels and annotations of others on it are left alone."""
    have, want = existing.get("metadata") or {}, wanted["metadata"]
    maps_hold = all(
        (have.get(part) or {}).get(key) == value
        for part in ("labels", "annotations")
        for key, value in want[part].items()
    )
    same_owner = (have.get("ownerReferences") or []) == want.get("ownerReferences", [])
    return not (maps_hold and same_owner and existing.get("spec") == wanted["spec"])


def stale_mirrors(existing: GangObjects, key: GangKey, gang: Gang | None, *, kept: bool = False) -> list[Manifest]:
    """Mirrors of a gang to be deleted: it is gone, or has another mirror, or asks by a Gang of its own now.

    :param gang: None where there is none of that name any more.
    :param kept: whether it exists but could not be read (it contradicts itself): its mirror stays and says so.
    """
    if kept and gang is None:
        return []
    own = mirror_place(gang, existing) if gang is not None and is_mirrored(gang) else None
    found = (existing.at(place) for place in existing.mirroring(key) if place != own)
    return [each for each in found if each is not None]


def _candidates(base: str, kind: str) -> Iterable[str]:
    yield base[:_NAME_LENGTH]
    prefixed = f"{kind}-{base}"[: _NAME_LENGTH - 8]
    yield prefixed
    yield from (f"{prefixed}-{number}" for number in count(2))


def _object_name(text: str) -> str:
    """A gang's name on pods may be any text; an object's is lower case letters, digits, dots and dashes."""
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
    """What was asked for. What follows from it elsewhere is no wish of its own and stays out.

    So do `near` and `node_wishes`, which come from where other pods run and from how large the nodes are now; the plan
    in the status shows what became of them.
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
    """As the API server gives it back, lists and all: what differs from that would be written again in every round."""
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
    """The fields that say something: the API server would store neither a null nor, for us, an empty list."""
    return {key: value for key, value in fields.items() if value not in (None, [])}
