"""The story of one gang as JSON, `/v1/story`: the state and history that `phalanx why` and `phalanx events` print."""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from cluster.api.callers import NotToldError, plain_refusals
from cluster.api.transport import Transport
from gangs.dialects.table import OWN
from gangs.mirrors import claim_of, is_marked, mirrored_key
from gangs.model import Manifest
from kube import keys
from kube.names import natural_key
from kube.objects import Pod
from kube.text import one_line, one_line_each
from planning.stories.devices import Claims, devices_of_member, held_devices
from planning.stories.facts import (
    GangFacts,
    asked_by,
    left_over,
    member_keys,
    place_of,
    pod_state,
    presence,
    restarted,
    since,
    waited,
    wants,
)
from planning.stories.history import PAGE, ReadingLimit, TooManyEventsError, history, warnings
from planning.stories.line import in_line
from planning.stories.timeline import folded, story
from webhook.picture import Picture

Json = dict[str, Any]
Events = Callable[[GangFacts], tuple[Sequence[Manifest], str]]

MOST_STEPS = 200
"""The most steps of one story. Older steps are left out."""
MOST_READERS = 2
"""The most stories for which events are read at a time. After `BUSY_SECONDS`, other stories come without events."""
BUSY_SECONDS = 0.5
"""Seconds for which a story waits until its events can be read."""
MOST_PAGES, READING_SECONDS = 10, 5.0
"""The limits of the events read for one story: pages of the API server's list, and seconds."""
MORE_THAN = f"there are more than {MOST_PAGES * PAGE:,}, or reading them takes longer than {READING_SECONDS:g} s"
_STATUS = ("phase", "reason", "message", "proof", "objective", "levels", "victims", "explanation", "flavors")


class EventReader:
    """Reads the events of a gang from the API server, with the permissions of the caller.

    At most `MOST_READERS` callers read at a time, each at most `MOST_PAGES` pages and for `READING_SECONDS`.
    """

    def __init__(self) -> None:
        self._places = threading.BoundedSemaphore(MOST_READERS)

    def read(self, facts: GangFacts, api: Transport | None) -> tuple[Sequence[Manifest], str]:
        """Return the gang's events that the caller may read, and why some are missing ("" if none is).

        :param api: an API client with the caller's token; None if there is none, so that no events can be read.
        """
        if api is None:
            return (), "events cannot be read here"
        if not self._places.acquire(timeout=BUSY_SECONDS):
            return (), "the events of other gangs are being read; ask again in a moment"
        found: list[Manifest] = []
        try:
            limit = ReadingLimit(MOST_PAGES, READING_SECONDS)
            with plain_refusals():
                found += history(api, facts.manifest, facts.pods, limit)
                found += warnings(api, facts.pods, limit)
        except NotToldError as error:
            return found, str(error)
        except TooManyEventsError:
            meta = facts.manifest["metadata"]
            own = f"phalanx events {meta['namespace']}/{meta['name']}"
            return found, f"not all events were read: {MORE_THAN}; {own} reads all"
        finally:
            self._places.release()
        return found, ""


def story_of(
    picture: Picture,
    namespace: str,
    name: str,
    dialect: str,
    events: Callable[[GangFacts], tuple[Sequence[Manifest], str]],
    *,
    displaced: Callable[[str], Sequence[Json]] = lambda _: (),
) -> Json | None:
    """Return the story of a gang as JSON data; None if no Gang object shows a gang of that name.

    :param name: the gang's name in its dialect.
    :param dialect: the gang's dialect. "": any dialect.
    :param events: returns the gang's events that the caller may read, and why some are missing ("" if none is).
    :param displaced: returns the recorded evictions of the gang, by the uid of its Gang object.
    """
    manifests = list(picture.sources_of().of_kind(keys.GROUP, "Gang"))
    showing = (each for each in manifests if _shows(each, namespace, name, dialect))
    found = max(showing, key=is_marked, default=None)
    if found is None:
        return None
    manifest: Manifest = one_line_each(found)
    pods = picture.all_of(*member_keys(found)).pods
    facts = GangFacts(manifest, pods, claims=_claims(picture, pods))
    happened, lacking = events(facts)
    steps = story(manifest, happened)
    shown = steps[-MOST_STEPS:]
    return {
        "namespace": namespace,
        "name": name,
        **{each: facts.status.get(each) for each in _STATUS},
        "askedBy": asked_by(manifest),
        "wants": wants(facts.spec),
        "presence": presence(facts),
        "devicesHeld": held_devices(facts.pods, facts.claims, facts.status),
        "since": since(facts.status),
        "waitedSeconds": waited(manifest),
        "restarts": facts.status.get("restarts") or 0,
        "restarted": restarted(facts.status),
        "displaced": list(displaced(str(found["metadata"].get("uid") or ""))),
        "place": _place(picture, found, manifests),
        "members": [_member(each, facts) for each in sorted(facts.pods, key=lambda pod: natural_key(pod.key))],
        "heldBack": list(left_over(facts)),
        "steps": [
            {
                "at": each.at.isoformat(),
                "after": round((each.at - steps[0].at).total_seconds(), 3),
                "what": each.what,
                "note": note,
                "warning": each.warning,
                "times": each.times,
                "of": each.of,
            }
            for each, note in zip(shown, folded(each.note for each in shown), strict=True)
        ],
        "withoutEvents": lacking,
    }


def _shows(manifest: Manifest, namespace: str, name: str, dialect: str) -> bool:
    """Whether a Gang object shows this gang: a user wrote it for the gang, or it is the gang's mirror.

    False for an object whose annotation `phalanx.dev/mirrors` names the gang, if the object is no confirmed mirror and
    is in another namespace than the gang. `dialect` "": any dialect.
    """
    meta = manifest["metadata"]
    key = mirrored_key(manifest)
    if key is None:
        own = (meta.get("namespace"), meta["name"]) == (namespace, name)
        return own and not claim_of(manifest) and dialect in ("", OWN)
    return (key.namespace, key.name) == (namespace, name) and dialect in ("", key.dialect)


def _place(picture: Picture, manifest: Manifest, manifests: Sequence[Manifest]) -> Json | None:
    if not in_line(manifest):
        return None
    unbound: Iterable[Pod] = (pod for pod in picture.sources().pods if not pod.spec.node_name)
    found = place_of(manifest, manifests, unbound)
    return {
        "position": len(found.before) + 1,
        "waiting": found.waiting,
        "before": list(found.before),
        "told": str(found),
    }


def _claims(picture: Picture, pods: Sequence[Pod]) -> Claims:
    """Return the ResourceClaims that the caches know; empty if no member has claims."""
    if not any(pod.spec.resource_claims for pod in pods):
        return {}
    devices = picture.snapshot().devices
    return devices.claims if devices is not None else {}


def _member(pod: Pod, facts: GangFacts) -> Json:
    """Return the JSON data of a member. `devices`: text about its devices; absent if it has none and gets none."""
    planned = {(e["namespace"], e["pod"]): e["node"] for e in facts.status.get("assignments") or ()}
    at = pod.metadata.namespace, pod.metadata.name
    node = pod.spec.node_name or pod.metadata.annotations.get(keys.PLANNED_NODE) or planned.get(at, "")
    devices = devices_of_member(pod, facts.claims, facts.status)
    shown = {"namespace": at[0], "pod": at[1], "state": pod_state(pod), "node": node}
    return {**shown, "devices": one_line(devices.text)} if devices is not None else shown
