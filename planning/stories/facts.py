"""The known facts about a gang, and the lines that show them in a terminal or on the live page of `phalanx ui`."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from cluster.times import instant
from gangs.dialects.claims import dialect_of, parts_of
from gangs.dialects.table import OWN
from gangs.mirrors import claim_of, mirrored_key
from gangs.model import GangKey, Manifest
from kube.devices import ResourceClaim
from kube.keys import GATE
from kube.names import natural_key
from kube.objects import Pod
from planning.messages.wording import domain, listed, pods
from planning.stories.line import PlaceInLine, place


@dataclass(frozen=True, slots=True)
class StartEstimate:
    """The estimated start of a gang that waits for quota.

    `at`: None if the start is unknown. `unknown`: why the start is unknown if `at` is None. `after`: the gang whose end
    decides the start, as `namespace/name`; "" if `at` is None.
    """

    at: datetime | None
    unknown: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class GangFacts:
    """The facts about a gang: its Gang object, its members, events (core/v1), and the Lease of the controllers.

    `leader`: the spec of the Lease; None if there is no Lease, and empty if it could not be read. `place`: the gang's
    position among the waiting gangs; None if the gang does not wait, or if the other gangs may not be read. `start`:
    the estimated start; None if the gang does not wait in a queue, or if its start was not estimated. `beside`: the
    gangs, as `namespace/name`, in the few domains to which a node selector confines the gang. Empty without such a
    selector, or if the other gangs may not be read. `claims`: the ResourceClaims of its namespaces, by
    `namespace/name`; empty if no member has claims, or if they may not be read.
    """

    manifest: Manifest
    pods: Sequence[Pod] = ()
    events: Sequence[Manifest] = ()
    leader: Manifest | None = None
    place: PlaceInLine | None = None
    start: StartEstimate | None = None
    beside: Sequence[str] = ()
    claims: Mapping[str, ResourceClaim] = field(default_factory=dict)

    @property
    def status(self) -> Mapping[str, Any]:
        """The status of the Gang object; empty if the object has none yet."""
        return self.manifest.get("status") or {}

    @property
    def spec(self) -> Mapping[str, Any]:
        """The spec of the Gang object."""
        return self.manifest.get("spec") or {}


def member_keys(manifest: Manifest) -> set[GangKey]:
    """Return the keys of the gang that its pods may name: its own key, and the keys of the groups that are its pod
    sets.
    """
    meta = manifest["metadata"]
    gang = mirrored_key(manifest) or GangKey(OWN, meta["namespace"], meta["name"])
    return parts_of(gang, [each["name"] for each in (manifest.get("spec") or {}).get("podSets") or ()])


def shown_key(manifest: Manifest) -> GangKey | None:
    """Return the key of the gang that a Gang object shows.

    None if the annotation `phalanx.dev/mirrors` of the object names a gang of another namespace, but the controller has
    not confirmed that the object is a mirror.
    """
    meta = manifest["metadata"]
    if (key := mirrored_key(manifest)) is not None or claim_of(manifest):
        return key
    return GangKey(OWN, meta.get("namespace", ""), meta["name"])


def placed_at(status: Mapping[str, Any]) -> datetime | None:
    """Return when the condition Placed of a Gang became true, from its status; None if the condition is not true."""
    times = (
        each.get("lastTransitionTime")
        for each in status.get("conditions") or ()
        if each["type"] == "Placed" and each["status"] == "True"
    )
    return instant(next(times, None))


def waited(manifest: Manifest) -> float | None:
    """Return the seconds from the creation of a Gang to its last placement. None if it is not placed."""
    created, at = instant(manifest["metadata"].get("creationTimestamp")), placed_at(manifest.get("status") or {})
    return None if created is None or at is None else max(0.0, (at - created).total_seconds())


def asked_by(manifest: Manifest) -> str:
    """Return the object that asked for a gang, and its dialect, as text; "" for a Gang that a user created."""
    key = mirrored_key(manifest)
    if key is None:
        return ""
    owners = manifest["metadata"].get("ownerReferences") or ()
    who = f"{owners[0]['kind']} {key.namespace}/{owners[0]['name']}" if owners else f"pods of gang {key}"
    return f"{who} ({key.dialect})"


def wants(spec: Mapping[str, Any]) -> str:
    """Return the placement request of a gang in one line: its pods and its levels."""
    sets = spec.get("podSets") or ()
    count = sum(each["count"] for each in sets)
    least = spec.get("minMember")
    if least is None:
        least = sum(each.get("minCount") or each["count"] for each in sets)
    if count:
        parts = [
            f"{pods(count)} that start together" if least >= count else f"at least {least} of {pods(count)} together"
        ]
    else:
        parts = [f"at least {pods(least)} together" if least else "all its pods together"]
    if spec.get("required"):
        parts.append(f"in one {spec['required']}")
    if spec.get("preferred"):
        parts.append(f"if possible in one {spec['preferred']}")
    return ", ".join(parts)


def restarted(status: Mapping[str, Any]) -> str:
    """Return the last restart of a gang as a whole in one line: the cause, the domain before it, and the present
    domain.

    "" if the gang has not been restarted.

    :param status: the status of the Gang object.
    """
    times = status.get("restarts") or 0
    if not times:
        return ""
    last = status.get("lastRestart") or {}
    text = "restarted once" if times == 1 else f"restarted {times} times"
    if at := last.get("at"):
        text += f", at {at}" if times == 1 else f", last at {at}"
    text += ": a lost pod had no place beside the others"
    if left := last.get("from"):
        text += f" in {left}"
    if closed := last.get("closedNodes"):
        text += f" ({closed})"
    now = (status.get("summary") or {}).get("domain") if status.get("phase") in ("Placed", "Released") else ""
    return f"{text}; now in {now}" if now and now != left else text


def presence(facts: GangFacts) -> str:
    """Return how many members of the gang exist and are bound, and which are missing, as text."""
    members = facts.status.get("members") or {}
    existing = [pod for pod in facts.pods if not pod.terminating and not pod.finished]
    expected = max(members.get("expected", 0), len(existing))
    parts = [f"{len(existing)} of {expected} exist", f"{sum(pod.bound for pod in existing)} bound"]
    missing = _missing(facts, existing)
    return (
        ", ".join(parts) + (f"; missing: {missing}" if missing else "") + _delay(facts, lacks=len(existing) < expected)
    )


def _delay(facts: GangFacts, *, lacks: bool) -> str:
    """Return why missing pods are not recreated yet, as the end of a text. The condition Complete of the Gang object
    has the reason.

    "" if no pods are missing. Also "" if the gang waits for the missing pods, because the gang's message gives the
    reason then.
    """
    conditions = facts.status.get("conditions") or ()
    messages = (each.get("message") for each in conditions if each["type"] == "Complete" and each["status"] == "True")
    why = str(next(messages, None) or "").partition("; ")[2] if lacks else ""
    return f"; {why}" if why else ""


def _missing(facts: GangFacts, existing: Sequence[Pod]) -> str:
    """Return the number of missing pods of each pod set, as text; "" if the gang has only one set or no pod is
    missing.
    """
    sets = facts.spec.get("podSets") or ()
    if len(sets) < 2:  # noqa: PLR2004 - one set is the gang itself, whose numbers stand before
        return ""
    planned = {(e["namespace"], e["pod"]): e["podSet"] for e in facts.status.get("assignments") or ()}
    known = Counter(planned.get((pod.metadata.namespace, pod.metadata.name)) or set_of(pod, sets) for pod in existing)
    lacks = [(each["name"], each["count"] - known[each["name"]]) for each in sets]
    return listed([f"{count} of {name}" for name, count in lacks if count > 0] or [""])


def set_of(pod: Pod, sets: Sequence[Mapping[str, Any]]) -> str:
    """Return the pod set that a label of the pod names; "" if no label does.

    The value of the label is the set's name, or the name without its namespace if the gang consists of several groups.
    """
    names = {each["name"] for each in sets}
    full = {f"{pod.metadata.namespace}/{value}": value for value in pod.metadata.labels.values()}
    return next((name for name in (*pod.metadata.labels.values(), *full) if name in names), "")


def shared(status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each topology level above the node, with the domains that the gang uses, as two texts."""
    for level in (status.get("levels") or ())[:-1]:
        used = [f"{domain(each['path'])} ({each['pods']})" for each in level["domains"]]
        if used:
            mode = "" if level["mode"] == "none" else f", {level['mode']}"
            yield f"{level['level']}{mode}", ", ".join(used)


def since(status: Mapping[str, Any]) -> str:
    """Return the time of the latest condition change, from a Gang's status; "" if it has no condition."""
    times = [each.get("lastTransitionTime") or "" for each in status.get("conditions") or ()]
    return max(times, default="")


def left_over(facts: GangFacts) -> Sequence[str]:
    """Return why members beyond the minimum wait while the gang is placed; empty if none waits.

    The reasons are read from the pods' conditions.
    """
    if facts.status.get("phase") not in ("Placed", "Released"):
        return ()
    waiting = [pod for pod in facts.pods if pod.gated_by(GATE) and not pod.status.nominated_node_name]
    texts = (c.message for pod in waiting for c in pod.status.conditions if c.type == "PodScheduled")
    return tuple(dict.fromkeys(text.partition(": ")[2] for text in texts if text.startswith("gang ")))


def pod_state(pod: Pod) -> str:
    """Return the state of one member in words."""
    if pod.terminating:
        return "terminating"
    if pod.finished or pod.bound:
        return pod.status.phase if pod.status.phase != "Pending" else "bound, starting"
    if pod.gated_by(GATE):
        return "held back, capacity is reserved" if pod.status.nominated_node_name else "held back"
    refusal = next((c.message for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "False"), "")
    return f"released, not bound yet: {refusal}" if refusal else "released, not bound yet"


def gangs_beside(status: Mapping[str, Any], gangs: Iterable[Manifest]) -> list[str]:
    """Return the gangs in the few domains to which a node selector confines a gang, as `namespace/name`, in order.

    :param status: the status of the confined gang.
    :param gangs: all Gang objects.
    """
    explanation = status.get("explanation") or {}
    paths = ["/".join(each["path"]) for each in explanation.get("nearest") or () if each["path"]]
    if not explanation.get("onlyIn") or not paths:
        return []
    found = []
    for gang in gangs:
        domain_there = ((gang.get("status") or {}).get("summary") or {}).get("domain") or ""
        if any(f"{domain_there}/".startswith(f"{path}/") for path in paths):
            found.append(f"{gang['metadata']['namespace']}/{gang['metadata']['name']}")
    return sorted(found, key=natural_key)


def place_of(manifest: Manifest, gangs: Sequence[Manifest], unbound: Iterable[Pod]) -> PlaceInLine:
    """Return the gang's position among the waiting gangs. `gangs`: all Gang objects; `unbound`: all unbound pods."""
    whose = {key: each["metadata"]["uid"] for each in gangs for key in member_keys(each)}
    priority: dict[str, int] = {}
    for pod in unbound:
        if (claim := dialect_of(pod)) is not None and (uid := whose.get(claim[1])) is not None:
            own = pod.spec.priority or 0
            priority[uid] = min(own, priority.get(uid, own))
    return place(manifest, gangs, priority)
