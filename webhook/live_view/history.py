"""The gangs that have ended, `/v1/history`: a bounded record in memory.

A Gang object is deleted soon after its workload has ended, so nothing in the cluster shows afterwards how long the gang
waited. One thread reads the Gang objects of the watch caches once a second, without a request to the API server. When
an object is gone, the thread records when its gang waited and ran. Each replica has its own record, which begins when
the replica starts (docs/decisions/0040).
"""

import csv
import io
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from cluster.times import instant
from gangs.manifests import group_of
from gangs.model import GangKey, Manifest
from gangs.sources import Sources
from gangs.workloads.pod_templates import ended
from kube import keys
from kube.objects import Pod
from kube.quantities import in_bytes
from kube.requests import PODS, all_requests
from planning.stories.facts import member_keys, placed_at, shown_key
from timing.clock import SYSTEM_CLOCK, Clock
from webhook.picture import Picture

LOG = logging.getLogger(__name__)

HISTORY = "/v1/history"
LOOK_SECONDS = 1.0
"""Seconds between two reads of the Gang objects. Times in the record are exact to this."""
MOST_EVICTIONS = 20
"""The most evictions of one gang that are recorded with their time. The last ones are kept; all are counted."""
KEPT = timedelta(days=1)
"""How long an ended gang stays in the record."""
MOST_OF_A_NAMESPACE, MOST = 100, 500
"""The most ended gangs in the record, of one namespace and in total: about 1 kB each. The oldest are dropped first."""
SUCCEEDED, FAILED, DELETED, ENDED = "Succeeded", "Failed", "Deleted", "Ended"
"""How a gang ended. `DELETED`: it was deleted before. `ENDED`: its workload exists, wants no pods, and names no result.
"""
PATIENCE = {DELETED: timedelta(seconds=3), ENDED: timedelta(seconds=30)}
"""How long to wait for another outcome after the Gang object is gone, because the workload comes by another watch.

A Job wants no more pods some seconds before it reports that it is complete.
"""
NEW = "New"
"""The reason of a gang without a status."""
HOUR = 3600.0
_SUCCESSES = ("Complete", "Completed", "Succeeded")
"""Types of conditions by which a workload reports success."""
_PLACED, _PODS_TO_COME = "Placed", "PodsToCome"
GANG = keys.GROUP, "Gang"
COLUMNS = (
    "namespace",
    "name",
    "dialect",
    "outcome",
    "queue",
    "pods",
    "domain",
    "submitted",
    "started",
    "finished",
    "waitedSeconds",
    "ranSeconds",
    "evictions",
    "restarts",
)
"""The first columns of the CSV, which are fields of `EndedGang.as_data`. Waits by reason and resource hours follow."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Displacement:
    """An eviction of a gang. `by`: the gang that got its capacity; "" for another cause or an unknown one."""

    at: datetime
    by: str

    def as_data(self) -> Json:
        """Return the eviction as JSON data. `at` is an RFC 3339 time."""
        return {"at": _text(self.at), "by": self.by}


@dataclass(frozen=True, slots=True)
class EndedGang:
    """A gang that has ended, as the record shows it.

    `shown_by`: the name of its Gang object. `outcome`: how it ended (`SUCCEEDED` and so on). `pods`: the largest number
    of members that it expected. `domain`: the narrowest domain with all its members. `submitted`: when it was created.
    `started`: when all its members were bound for the first time; None if never. `finished`: when it ended. `waited`:
    seconds of waiting by the reason in its status, the longest first; waits after evictions count. `hours`: by
    resource, the requests of its bound pods times hours: core hours for cpu, piece hours for others such as GPUs.
    `evictions`: how often it stopped running before its end, without restarts and without losses of pods that completed
    or failed. `displaced`: the last `MOST_EVICTIONS` of these evictions, the latest last.
    """

    key: GangKey
    shown_by: str
    outcome: str
    queue: str
    pods: int
    domain: str
    submitted: datetime
    started: datetime | None
    finished: datetime
    waited: Mapping[str, float]
    hours: Mapping[str, float]
    evictions: int
    restarts: int
    displaced: tuple[Displacement, ...] = ()

    def as_data(self) -> Json:
        """Return the gang as JSON data: the fields in `COLUMNS`, `waitedFor`, `hours`, `gangObject` and `displaced`.

        Times are RFC 3339.
        """
        start = self.started or self.finished
        return {
            "namespace": self.key.namespace,
            "name": self.key.name,
            "dialect": self.key.dialect,
            "outcome": self.outcome,
            "queue": self.queue,
            "pods": self.pods,
            "domain": self.domain,
            "submitted": _text(self.submitted),
            "started": None if self.started is None else _text(self.started),
            "finished": _text(self.finished),
            "waitedSeconds": round((start - self.submitted).total_seconds(), 1),
            "ranSeconds": round((self.finished - start).total_seconds(), 1),
            "waitedFor": [{"reason": reason, "seconds": round(spent, 1)} for reason, spent in self.waited.items()],
            "hours": {name: round(amount, 4) for name, amount in self.hours.items()},
            "evictions": self.evictions,
            "restarts": self.restarts,
            "gangObject": self.shown_by,
            "displaced": [each.as_data() for each in self.displaced],
        }


def csv_of(gangs: Sequence[EndedGang]) -> str:
    """Return the gangs as CSV with a header line.

    The column `waitedFor` holds `reason=seconds` pairs, separated by spaces. Each resource has a column `<name>-hours`.
    """
    rows = [each.as_data() for each in gangs]
    resources = sorted({name for row in rows for name in row["hours"]})
    written = io.StringIO()
    table = csv.writer(written, lineterminator="\n")
    table.writerow([*COLUMNS, "waitedFor", *(f"{name}-hours" for name in resources)])
    for row in rows:
        waits = " ".join(f"{each['reason']}={each['seconds']:g}" for each in row["waitedFor"])
        table.writerow([*(row[name] for name in COLUMNS), waits, *(row["hours"].get(name, 0) for name in resources)])
    return written.getvalue()


class _Course:
    """How long an existing gang has waited and run so far, measured from the states of its Gang object."""

    def __init__(self, key: GangKey, manifest: Manifest, now: datetime) -> None:
        self.key = key
        self.manifest = manifest
        self.submitted = instant(manifest["metadata"].get("creationTimestamp")) or now
        self.started: datetime | None = None
        self.pods, self.domain = 0, ""
        self.evictions, self.restarts = 0, 0
        self.displaced: deque[Displacement] = deque(maxlen=MOST_EVICTIONS)
        self.waited: Counter[str] = Counter()
        """Milliseconds of waiting, by the reason in the status."""
        self.used: Counter[str] = Counter()
        """By resource: the requests of bound pods in base units, times milliseconds."""
        self.gone: datetime | None = None
        """When the Gang object was first seen to be gone; None while it exists."""
        self.noted = False
        """Whether `note` has recorded a state of the Gang object yet."""
        self._uses: Mapping[str, int] = {}
        self._live = self._completed = 0
        self._pods_completed = False
        """Whether the gang has fewer running pods than before only because pods completed or failed."""
        self._until = self.submitted
        self._reason, self._running = NEW, False

    def note(
        self, manifest: Manifest, members: Sequence[Pod], now: datetime, displaced_by: Callable[[GangKey], str]
    ) -> None:
        """Count the time up to `now` for the previous state of the Gang object, and remember its new state.

        :param members: the gang's pods that exist, finished ones included.
        :param displaced_by: returns the gang for which members of a gang are evicted; "" for none.
        """
        uses = _uses(members)
        self._count(members)
        status: Mapping[str, Any] = manifest.get("status") or {}
        reason = str(status.get("reason") or status.get("phase") or NEW)
        running = status.get("phase") == _PLACED or reason == _PODS_TO_COME
        if running and self.started is None:
            self.started = min(now, max(self.submitted, placed_at(status) or now))
        if not self.noted:
            # The time before the first look counts as if the object had always shown this state.
            self._reason, self._running, self._uses = reason, running, uses
            self._until = (self.started if running else None) or self.submitted
            self.noted = True
        self.pass_to(now)
        restarts = int(status.get("restarts") or 0)
        if self._running and not running and restarts <= self.restarts and not self._pods_completed:
            self.evictions += 1
            self.displaced.append(Displacement(now, displaced_by(self.key)))
        self.restarts = max(self.restarts, restarts)
        self.manifest, self._uses = manifest, uses
        self._reason, self._running = reason, running
        expected = (status.get("members") or {}).get("expected")
        self.pods = max(self.pods, int(expected or 0))
        self.domain = str((status.get("summary") or {}).get("domain") or self.domain)

    def _count(self, members: Sequence[Pod]) -> None:
        """Note whether running pods completed or failed since the last call. Such a loss of pods is no eviction."""
        live = sum(pod.bound and not pod.finished and not pod.terminating for pod in members)
        completed = sum(pod.finished and not _disrupted(pod) for pod in members)
        if live != self._live:
            self._pods_completed = self._live - live <= completed - self._completed and live < self._live
        self._live, self._completed = live, completed

    def pass_to(self, now: datetime) -> None:
        """Count the time since the last call up to `now`, as waiting if the gang does not run.

        Requests of bound members count as used in either case.
        """
        spent = round((now - self._until).total_seconds() * 1000)
        if spent <= 0:
            return
        if not self._running:
            self.waited[self._reason] += spent
        for name, amount in self._uses.items():
            self.used[name] += amount * spent
        self._until = now

    def end(self, outcome: str, finished: datetime) -> EndedGang:
        """Return the record of the gang, which ended at `finished` with this outcome."""
        hours = {
            name: amount / (1000 * HOUR) / (1000 if name == "cpu" else 1) for name, amount in sorted(self.used.items())
        }
        return EndedGang(
            key=self.key,
            shown_by=str(self.manifest["metadata"]["name"]),
            outcome=outcome,
            queue=str((self.manifest.get("spec") or {}).get("queue") or ""),
            pods=self.pods,
            domain=self.domain,
            submitted=self.submitted,
            started=self.started,
            finished=max(finished, self.started or self.submitted),
            waited={reason: spent / 1000 for reason, spent in self.waited.most_common()},
            hours=hours,
            evictions=self.evictions,
            restarts=self.restarts,
            displaced=tuple(self.displaced),
        )


class History:
    """The record of ended gangs, kept in memory. Safe to share between threads, if only one thread calls `look`."""

    def __init__(self, picture: Picture, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._picture = picture
        self._clock = clock
        self._lock = threading.Lock()
        self._courses: dict[str, _Course] = {}
        """The gangs that exist or whose outcome is not final yet, by the UID of their Gang object."""
        self._ended: deque[EndedGang] = deque()
        self._over = threading.Event()

    def start(self) -> None:
        """Begin to read the Gang objects, in a thread of its own."""
        threading.Thread(target=self._run, name="history", daemon=True).start()

    def close(self) -> None:
        """Stop the thread that reads the Gang objects."""
        self._over.set()

    def gangs(self, namespace: str = "") -> list[EndedGang]:
        """Return the gangs that ended within `KEPT`, the last one first.

        :param namespace: return only gangs of this namespace; "": of all.
        """
        oldest = self._clock.wall() - KEPT
        with self._lock:
            known = list(self._ended)
        return [each for each in reversed(known) if each.finished >= oldest and namespace in ("", each.key.namespace)]

    def displaced(self, uid: str) -> list[Json]:
        """Return the last evictions of a gang that exists, as JSON data, the latest last; [] for an unknown gang.

        :param uid: the uid of its Gang object.
        """
        course = self._courses.get(uid)
        return [] if course is None else [each.as_data() for each in tuple(course.displaced)]

    def look(self) -> None:
        """Read all Gang objects once: count the time of existing gangs, and record the gangs that have ended."""
        if not self._picture.synced():
            return
        now, sources = self._clock.wall(), self._picture.sources_of()
        there = set[str]()
        for manifest in sources.of_kind(*GANG):
            key, uid = shown_key(manifest), str(manifest["metadata"].get("uid") or "")
            if key is None or not uid:
                continue
            there.add(uid)
            course = self._courses.get(uid)
            if course is None:
                course = self._courses[uid] = _Course(key, manifest, now)
            if course.manifest is not manifest or not course.noted:
                members = self._picture.all_of(*member_keys(manifest)).pods
                course.note(manifest, members, now, lambda gang: _displaced_by(gang, sources))
        for uid in self._courses.keys() - there:
            course = self._courses[uid]
            if course.gone is None:
                course.pass_to(now)
                course.gone = now
            outcome, finished = self._outcome(course, course.gone, sources)
            if now - course.gone >= PATIENCE.get(outcome, timedelta()):
                del self._courses[uid]
                self._record(course.end(outcome, finished))

    def _run(self) -> None:
        while not self._clock.wait(self._over, LOOK_SECONDS):
            try:
                self.look()
            except Exception:
                LOG.exception("the history of gangs misses a look")

    def _outcome(self, course: _Course, gone: datetime, sources: Sources) -> tuple[str, datetime]:
        """Return how a gang ended, and when.

        :param gone: when its Gang object was first seen to be gone.
        """
        owner = _owner(course.manifest, sources)
        if owner is not None:
            return _end_of(owner, gone)
        pods = self._picture.all_of(*member_keys(course.manifest)).pods
        if pods and all(pod.finished for pod in pods):
            return SUCCEEDED if all(pod.status.phase == SUCCEEDED for pod in pods) else FAILED, gone
        return DELETED, gone

    def _record(self, gang: EndedGang) -> None:
        oldest = self._clock.wall() - KEPT
        with self._lock:
            kept = [each for each in self._ended if each.finished >= oldest]
            own = [each for each in kept if each.key.namespace == gang.key.namespace]
            if len(own) >= MOST_OF_A_NAMESPACE:
                kept.remove(own[0])
            self._ended = deque([*kept, gang], maxlen=MOST)


def _uses(pods: Sequence[Pod]) -> Mapping[str, int]:
    """Return, by resource, the requests of the bound pods in base units.

    Only cpu and resources that are counted in pieces, such as GPUs, are returned; resources in bytes are left out.
    """
    asked = all_requests(pod for pod in pods if pod.bound and not pod.finished)
    return {name: amount for name, amount in asked.items() if name != PODS and not in_bytes(name)}


def _disrupted(pod: Pod) -> bool:
    """Whether the pod was evicted, preempted, or deleted because of its node (condition `DisruptionTarget`)."""
    return any(each.type == "DisruptionTarget" and each.status == "True" for each in pod.status.conditions)


def _displaced_by(gang: GangKey, sources: Sources) -> str:
    """Return the gang whose plan names members of this gang as victims; "" if no plan in force does.

    If several gangs have such plans, the gang that was planned last is returned.
    """
    found: list[tuple[str, str]] = []
    for manifest in sources.of_kind(*GANG):
        victims = (manifest.get("status") or {}).get("victims") or ()
        if any(each.get("gang") == str(gang) for each in victims) and (key := shown_key(manifest)) is not None:
            planned = (each for each in _conditions(manifest) if each.get("type") == "Planned")
            found.append((max((str(each.get("lastTransitionTime") or "") for each in planned), default=""), str(key)))
    return max(found, default=("", ""))[1]


def _owner(manifest: Manifest, sources: Sources) -> Manifest | None:
    """Return the owner of a Gang object, the workload that asked for the gang; None if it does not exist any more."""
    for ref in manifest["metadata"].get("ownerReferences") or ():
        namespace = manifest["metadata"]["namespace"]
        found = sources.get(group_of(ref["apiVersion"]), ref["kind"], namespace, ref["name"])
        if found is not None and found["metadata"].get("uid", ref["uid"]) == ref["uid"]:
            return found
    return None


def _end_of(owner: Manifest, gone: datetime) -> tuple[str, datetime]:
    """Return how a workload ended, and when: from its conditions, or `gone` if they do not say when.

    :param gone: when the Gang object was first seen to be gone.
    """
    true = {each.get("type"): each for each in _conditions(owner) if each.get("status") == "True"}
    if (failure := true.get(FAILED)) is not None:
        return FAILED, instant(failure.get("lastTransitionTime")) or gone
    if success := next((true[each] for each in _SUCCESSES if each in true), None):
        status = owner.get("status") or {}
        return SUCCEEDED, instant(status.get("completionTime") or success.get("lastTransitionTime")) or gone
    if ended(owner):
        return ENDED, gone
    return (DELETED if owner["metadata"].get("deletionTimestamp") else ENDED), gone


def _conditions(manifest: Manifest) -> Iterator[Mapping[str, Any]]:
    status = manifest.get("status")
    written = status.get("conditions") if isinstance(status, Mapping) else None
    yield from (each for each in written or () if isinstance(each, Mapping))


def _text(at: datetime) -> str:
    """Return a UTC time in RFC 3339 format, in whole seconds as Kubernetes writes it."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
