"""The invariants that hold after every step, and those at the end of a schedule.

The letters are those of docs/decisions/0036.

The invariants read the API server's store and the requests of the controllers, and no product code.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from local_api.resources import CLAIMS, GANGS, PODS, RULES, Resource
from local_api.store import Event, Object

from simulation.models.budgets import budgets_over, covered
from simulation.models.devices import (
    CAPACITY,
    SHARE,
    Device,
    claim_names,
    consumers_of,
    devices_of,
    entries,
    shares_of,
    whole_devices_of,
)
from simulation.models.kubelets import READY_SECONDS
from simulation.models.leader_worker_sets import LEADER_WORKER_SETS, READY
from simulation.models.scheduler import NODES
from simulation.models.stateful_sets import STATEFUL_SETS, is_ordered
from simulation.models.workloads import SYNC_SECONDS
from simulation.network import Sent
from simulation.objects import (
    allocatable,
    capacity_of,
    gang_of,
    gates_of,
    is_finished,
    is_placeholder,
    is_ready,
    is_selected,
    is_terminating,
    is_tolerated,
    name_of,
    node_of,
    nominated,
    priority_of,
    requests_of,
    thousandths,
    unpinned,
    used,
)

if TYPE_CHECKING:
    from simulation.world import World

PARTLY_SECONDS = 6.0
"""(a) The lease of 4 s, and 2 s (docs/decisions/0015)."""
VICTIMS_SECONDS = 56.0
"""(a) How much longer that may last if the plan has victims: a minute in place of the lease (docs/decisions/0015)."""
LEADER_FIRST_SECONDS = PARTLY_SECONDS + max(READY_SECONDS) + max(SYNC_SECONDS)
"""(a) The same for a gang whose workload creates each pod when all before it are ready (docs/decisions/0022), from one
binding to the next. Between them a kubelet and the workload's controller act, at their slowest.
"""
SETTLED_SECONDS = 30.0
"""(g) Within this after the last disturbance a gang that fits is bound."""
GRACE_SECONDS = 30.0
"""A terminating pod counts as gone if it ends within this, and is not overdue by more (contract, section 4)."""
KEPT_SECONDS = 6.5
"""(k) After this time, no binding arrives that was decided before a nomination.

It is the sum of a very late watch event, a cycle of a hanging scheduler, and a slow binding.
"""
_ENDING_SECONDS = 1.0
"""(a) How often a gang in part is looked at while one of its pods terminates."""
STATUS_LOST = "its status was lost"
_RACE_SECONDS = 0.1
"""(d) What became true so shortly before a request was sent, the controller could not know."""
_SLACK = 0.02
"""Logical seconds of rounding in the bounds above."""
DEVICES = "devices"
"""The name under which the first-fit search counts devices like a resource, one device as 1."""
RACK = "example.com/rack"
SYSTEM = "phalanx-system"


@dataclass
class GangState:
    """A gang as the invariants remember it.

    `partly_since`: when the first of its members was bound, if fewer than the minimum have run since then; else None.
    `whole_since`: since when the minimum runs; None if fewer run.
    `seen_whole`: whether a leader has completed a round that saw the minimum run, since the first member was bound. A
    gang that no leader saw whole counts as never whole (docs/decisions/0015).
    """

    members: dict[str, Object] = field(default_factory=dict)
    partly_since: float | None = None
    bound: int = 0
    """How many members have been bound so far."""
    whole_since: float | None = None
    ever_whole: bool = False
    seen_whole: bool = False
    status_lost: bool = False
    """Whether its Gang was deleted, or the status wiped, while members ran."""
    last_whole: float = -1.0
    edited: bool = False
    """Whether the spec of its Gang was changed since a member first ran. A Gang that is created again may have it."""

    @property
    def lost(self) -> str:
        """A remark for violations that a lost status may explain."""
        return f" ({STATUS_LOST})" if self.status_lost else ""


@dataclass(frozen=True)
class Eviction:
    """(c) A pod that a controller evicted for a gang."""

    time: float
    victim: str
    gang: str


class Invariants:
    """Watches the store."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.violations: list[str] = []
        self.gangs: defaultdict[str, GangState] = defaultdict(GangState)
        self.last_disturbance = 0.0
        """When the last fault or user action was over."""
        self._released: dict[str, str] = {}
        """By the uid of a pod: the controller whose request has removed its gate."""
        self._pods: dict[str, Object] = {}
        """All pods that exist, by namespace and name."""
        self._evictions: list[Eviction] = []
        self._is_quota_lost = False
        """Whether the Gang of running pods was deleted: they are charged to no queue meanwhile."""
        self._kept: dict[str, tuple[str, float]] = {}
        """(k) The gangs that have reserved the capacity of their whole plan: its id, and since when."""
        self._claims: dict[str, Object] = {}
        """All claims of devices that exist, by namespace and name."""
        self._departures: list[tuple[float, Object]] = []
        """Ready pods that others than the Eviction API have taken away, with the time."""

    def disturbed(self, until: float | None = None) -> None:
        """Note a fault or a user action: bounds on time count from its end."""
        self.last_disturbance = max(self.last_disturbance, self._world.engine.now if until is None else until)

    def violated(self, letter: str, text: str) -> None:
        """Note a broken invariant."""
        violation = f"({letter}) {text}"
        if violation not in self.violations:
            self._world.note(f"*** {violation}")
            self.violations.append(violation)

    def see(self, event: Event) -> None:
        """Check one change."""
        if event.resource == GANGS:
            self._see_gang(event)
        if event.resource == CLAIMS:
            self._allocated(event)
        if event.resource == PODS:
            self._see_pod(event)

    def _see_gang(self, event: Event) -> None:
        state = self.gangs[name_of(event.object)]
        state.edited |= event.object["metadata"]["generation"] > 1
        lost = event.kind == "DELETED" or (event.kind == "MODIFIED" and not event.object.get("status"))
        running = any(map(_runs, state.members.values()))
        state.status_lost |= lost and running
        self._is_quota_lost |= event.kind == "DELETED" and running and bool(event.object["spec"].get("queue"))
        self._note_kept(name_of(event.object))
        if event.kind != "DELETED":  # its minimum may have changed since its last member was bound
            self._count(name_of(event.object), self.gangs[name_of(event.object)])

    def _see_pod(self, event: Event) -> None:
        pod, name = event.object, name_of(event.object)
        before = self._pods.get(name)
        leaves = event.kind == "DELETED" or not _is_healthy(pod)
        if before is not None and _is_healthy(before) and leaves and not _is_evicted(pod):
            self._departures.append((self._world.engine.now, before))
        if event.kind == "DELETED":
            self._pods.pop(name, None)
        else:
            self._pods[name] = pod
        gang = gang_of(pod)
        if node_of(pod) and (before is None or not node_of(before)):
            self._bound(pod, gang)
        if gang:
            state = self.gangs[gang]
            state.bound += bool(node_of(pod)) and (before is None or not node_of(before))
            if event.kind == "DELETED":
                state.members.pop(pod["metadata"]["uid"], None)
            else:
                state.members[pod["metadata"]["uid"]] = pod
            self._count(gang, state)
        if owner := capacity_of(pod):
            self._note_kept(owner)

    def _bound(self, pod: Object, gang: str) -> None:
        name, node = pod["metadata"]["name"], node_of(pod)
        if gang and pod["metadata"]["uid"] not in self._released:
            self.violated("e", f"pod {name} of gang {gang} is bound, though no controller released it")
        if gang and (queue := self.queue_of(gang)):
            self._charged(queue)
        found = self._world.api.store.objects.get((NODES, "", node))
        if found is None:
            return
        there = [each for each in self._pods.values() if node_of(each) == node and not is_finished(each)]
        free = allocatable(found)
        free.subtract(used(there))
        self._intruded(pod, gang, there)
        if any(amount < 0 for amount in free.values()):
            names = ", ".join(sorted(each["metadata"]["name"] for each in there))
            self.violated("b", f"node {node} is over-committed by {names}")

    def _allocated(self, event: Event) -> None:
        """(v) No device belongs to two claims, and claims consume no more of a shared device than it has."""
        self._claims.pop(name_of(event.object), None)
        if event.kind == "DELETED":
            return
        devices = devices_of(event.object)
        for name, other in self._claims.items():
            both = {*devices} & {*devices_of(other)}
            if double := sorted(both - (shares_of(event.object).keys() & shares_of(other).keys())):
                self.violated("v", f"device {'/'.join(double[0])} belongs to {name} and {name_of(event.object)}")
        self._claims[name_of(event.object)] = event.object
        for device in shares_of(event.object):
            if (consumed := self._consumed(device)) > CAPACITY:
                self.violated("v", f"claims consume {consumed} of {CAPACITY} of device {'/'.join(device)}")
        self._world.counts["allocations of devices"] += bool(devices)

    def _consumed(self, device: Device, claims: Iterable[Object] | None = None) -> int:
        """Return what claims consume of a shared device. `claims`: None: all claims."""
        return sum(shares_of(each)[device] for each in (self._claims.values() if claims is None else claims))

    def _released_with_devices(self, pod: Object, process: str) -> None:
        """(v) No member is released before all its claims have devices, and are reserved for it."""
        names, uid = claim_names(pod), pod["metadata"]["uid"]
        claims = [self._claims.get(name, {}) for name in names or ()]
        if names is None or any(uid not in {each["uid"] for each in consumers_of(claim)} for claim in claims):
            self.violated("v", f"{process} releases {pod['metadata']['name']}, of which a claim has no device")
        self._world.counts["releases of members with devices"] += 1

    def _note_kept(self, gang: str) -> None:
        """(k) Note whether the gang has reserved the capacity of its whole plan, and has released no member yet."""
        status, members = self._status(gang), self.gangs[gang].members
        plan, assigned = str(status.get("planId") or ""), _assigned(status)
        holders = {
            pod["metadata"]["annotations"]["phalanx.dev/seat"]: nominated(pod)
            for pod in self._pods.values()
            if is_placeholder(pod) and capacity_of(pod) == gang and nominated(pod)
        }
        places = {uid: nominated(each) for uid, each in members.items() if nominated(each)} | holders
        is_kept = bool(plan and assigned) and all(places.get(uid) == node for uid, node in assigned.items())
        if not is_kept or not all(map(gates_of, members.values())):
            self._kept.pop(gang, None)
        elif self._kept.get(gang, ("", 0.0))[0] != plan:
            self._kept[gang] = plan, self._world.engine.now

    def _intruded(self, pod: Object, gang: str, there: list[Object]) -> None:
        """(k) No pod of the same or a lower priority is bound into the capacity that another gang has reserved.

        `there`: the pods on its node.
        """
        now, node = self._world.engine.now, node_of(pod)
        for other, (_, since) in self._kept.items():
            status = self._status(other)
            assigned = _assigned(status)
            held = [each for uid, each in self.gangs[other].members.items() if assigned.get(uid) == node]
            if other == gang or now < since + KEPT_SECONDS or not held:
                continue
            if priority_of(pod) > min(map(priority_of, held)):
                continue
            self._world.counts["bindings beside capacity that a gang has kept"] += 1
            victims = {each.get("uid") for each in status.get("victims") or ()}
            free = allocatable(self._world.api.store.objects[NODES, "", node])
            stay = (each for each in there if each["metadata"]["uid"] not in victims and not is_terminating(each))
            free.subtract(used(stay))
            free.subtract(used(held))
            if any(amount < 0 for amount in free.values()):
                self.violated("k", f"{pod['metadata']['name']} is bound to {node}, which gang {other} has reserved")

    def _charged(self, queue: str) -> None:
        """(b) The members that run use no more than the quota of their queue, and of its cohort."""
        queues = self._cohort_of(queue)
        asked, quota = self._usage(queues, _runs), sum(map(self.quota_of, queues))
        self._world.counts["bindings that a queue charged"] += 1
        if len(queues) > 1 and self._usage([queue], _runs) > self.quota_of(queue):
            self._world.counts["bindings of a queue that borrowed"] += 1
        if asked > quota and not self._is_quota_lost:
            name = ", ".join(queues)
            self.violated("b", f"queue {name} is charged {asked / 1000:g} cpu, and has a quota of {quota / 1000:g}")

    def _usage(self, queues: Collection[str], counts: Callable[[Object], bool], *, besides: str = "") -> int:
        """Return the thousandths of a cpu of the queues' pods for which `counts` is true, `besides` those of a gang."""
        queued = {gang for gang in self.gangs if gang != besides and self.queue_of(gang) in queues}
        return used(each for each in self._pods.values() if gang_of(each) in queued and counts(each))["cpu"]

    def queue_of(self, gang: str) -> str:
        """Return the queue of a gang; "" if it has none."""
        return str((self._gang(gang).get("spec") or {}).get("queue") or "")

    def _cluster_queues(self) -> dict[str, Object]:
        """Return the ClusterQueues by name. A LocalQueue here has the name of its ClusterQueue."""
        objects = self._world.api.store.objects.items()
        return {name: each for (resource, _, name), each in objects if resource.plural == "clusterqueues"}

    def _cohort_of(self, queue: str) -> list[str]:
        """Return the queues that share their quota with this one, itself included."""
        queues = self._cluster_queues()
        cohort = queues[queue]["spec"].get("cohortName")
        return sorted(name for name, each in queues.items() if cohort and each["spec"].get("cohortName") == cohort) or [
            queue
        ]

    def quota_of(self, queue: str) -> int:
        """Return the quota of a queue in thousandths of a cpu."""
        found = self._cluster_queues()[queue]
        (group,) = found["spec"]["resourceGroups"]
        (flavor,) = group["flavors"]
        (quota,) = flavor["resources"]
        return thousandths(quota["nominalQuota"])

    def _reserved(self, pod: Object, process: str, *, is_released: bool) -> None:
        """(r) A controller gives no capacity to two gangs: neither reserves what it has released, nor the reverse."""
        node, gang = nominated(pod), capacity_of(pod)
        found = self._world.api.store.objects.get((NODES, "", node))
        if found is None or not gang:
            return
        others = [each for each in self._pods.values() if self._holds(each, pod, process, is_released=is_released)]
        free = allocatable(found)
        free.subtract(used(each for each in others if not any(self._planned_evictions(each["metadata"]["uid"]))))
        if any(free[resource] < amount for resource, amount in requests_of(pod).items()):
            names = ", ".join(sorted(each["metadata"]["name"] for each in others))
            what = "is released to" if is_released else "has capacity reserved on"
            self.violated("r", f"{pod['metadata']['name']} {what} {node}, which {process} gave to {names}")

    def _holds(self, other: Object, pod: Object, process: str, *, is_released: bool) -> bool:
        """Whether this controller has given the pod's node to another gang's pod, of no lower priority if reserved."""
        if capacity_of(other) in ("", capacity_of(pod)) or is_terminating(other) or is_finished(other):
            return False
        if self._released.get(other["metadata"]["uid"]) == process:
            return nominated(pod) in (node_of(other), nominated(other))
        is_reserved = bool(gates_of(other) or is_placeholder(other)) and nominated(other) == nominated(pod)
        return is_released and is_reserved and priority_of(other) >= priority_of(pod)

    def _count(self, gang: str, state: GangState) -> None:
        now, minimum = self._world.engine.now, self.minimum(gang)
        running = [each for each in state.members.values() if _runs(each)]
        racks = {rack for each in running if (rack := self._rack(node_of(each)))}
        if self.is_level_required(gang) and not state.edited and len(racks) > 1:
            names = ", ".join(f"{each['metadata']['name']} on {node_of(each)}" for each in running)
            self.violated("b", f"gang {gang} requires one rack, but runs in several: {names}")
        if not running:
            if state.partly_since is not None and self.is_leader_first(gang):
                self._world.counts["leader-first starts that ended before they were whole"] += 1
            state.ever_whole, state.partly_since, state.whole_since = False, None, None
            state.seen_whole, state.status_lost = False, False
            state.edited = (self._gang(gang).get("metadata") or {}).get("generation", 1) > 1
            return
        if len(running) >= minimum > 0:
            if state.whole_since is None:
                state.whole_since = now
            if not state.ever_whole and self.is_leader_first(gang):
                self._world.counts["leader-first starts that became whole"] += 1
            state.ever_whole, state.partly_since, state.last_whole = True, None, now
            return
        state.whole_since = None
        if not state.ever_whole and state.partly_since is None and minimum:
            state.partly_since = now
            self._watch_partly(gang, state, now)

    def _watch_partly(self, gang: str, state: GangState, since: float) -> None:
        """(a) Look when the bound is over."""
        plan, ordered, bindings = self._status(gang), self.is_leader_first(gang), state.bound
        bound = LEADER_FIRST_SECONDS if ordered else PARTLY_SECONDS
        if plan.get("victims"):
            bound += VICTIMS_SECONDS
        due, ending = max(since, self.last_disturbance) + bound + _SLACK, False

        def look() -> None:
            nonlocal ending
            if state.partly_since != since:
                return
            was_ending, ending = ending, any(map(is_terminating, state.members.values()))
            longest = max(since, self.last_disturbance) + bound + VICTIMS_SECONDS
            if was_ending and not ending:
                state.partly_since = self._world.engine.now
                self._watch_partly(gang, state, state.partly_since)
                return
            if ordered and ending and self._world.engine.now < longest:
                self._world.counts["gangs in part that wait until a terminating pod has ended"] += 1
                self._world.engine.after(_ENDING_SECONDS, look)
                return
            if ordered and state.bound > bindings:
                self._world.counts["leader-first starts that outlasted one binding's bound"] += 1
                state.partly_since = self._world.engine.now
                self._watch_partly(gang, state, state.partly_since)
                return
            if max(since, self.last_disturbance) + bound > self._world.engine.now:
                self._watch_partly(gang, state, since)
                return
            if any(map(self._is_protected, state.members.values())):
                self._world.counts["gangs in part that a budget protects"] += 1
                state.partly_since = self._world.engine.now
                self._watch_partly(gang, state, state.partly_since)
                return
            running = sorted(each["metadata"]["name"] for each in state.members.values() if _runs(each))
            text = f"gang {gang} runs in part for more than {bound:g} s: only {', '.join(running)} run"
            self.violated("a", text + state.lost)

        self._world.engine.at(due, look)

    def _is_protected(self, pod: Object) -> bool:
        """Return whether a budget forbids to evict the running pod now: no controller can end a part of its gang."""
        allowed = (
            (each.get("status") or {}).get("disruptionsAllowed", 0) for each in budgets_over(pod, self._world.api)
        )
        return _runs(pod) and any(each <= 0 for each in allowed)

    def reconciled(self, begun: float, running: Mapping[str, Collection[str]]) -> None:
        """Note the gangs that a leader saw whole, in a round without a fault.

        :param running: by gang, the uids of its members that the leader's cache showed as running when the round began.
        """
        if begun <= self.last_disturbance:
            return
        for gang, uids in running.items():
            state = self.gangs[gang]
            if len(uids) >= self.minimum(gang) > 0 and any(uid in state.members for uid in uids):
                state.seen_whole = True

    def sent(self, sent: Sent) -> None:
        """Check a request of a controller."""
        request = sent.request
        if sent.code == 429 and request.path.endswith("/eviction"):
            self._world.counts["evictions that a budget or a fault refused"] += 1
        if sent.code >= 300 or "dryRun" in request.query:
            return
        self._fenced(sent)
        parts = request.path.removeprefix("/api/v1/namespaces/").split("/")
        if len(parts) < 3 or parts[1] != "pods":
            return
        namespace, _, name = parts[:3]
        if request.method == "PATCH":
            self._patched(f"{namespace}/{name}", sent)
        if namespace == SYSTEM:
            return
        if request.method == "DELETE":
            self.violated("f", f"{sent.process} deletes pod {name} past the Eviction API")
        elif parts[-1] == "eviction":
            self._evicted(f"{namespace}/{name}", sent)

    def _fenced(self, sent: Sent) -> None:
        """A write of a leader after its successor has the Lease."""
        if any(each in sent.request.path for each in ("/leases", "/events")):
            return
        lease = next(
            (each for (resource, *_), each in self._world.api.store.objects.items() if resource.plural == "leases"),
            None,
        )
        holder = (lease or {"spec": {}})["spec"].get("holderIdentity", "")
        if holder not in ("", sent.process):
            self.violated("fencing", f"{sent.process} writes ({sent.request}) while {holder} has the Lease")

    def _patched(self, name: str, sent: Sent) -> None:
        now = self._world.api.store.objects.get(_key(PODS, name))
        before = self._pods.get(name)
        if now is None or before is None:
            return
        is_released = bool(gates_of(before)) and not gates_of(now)
        if is_released:
            self._released[now["metadata"]["uid"]] = sent.process
            if entries(now):
                self._released_with_devices(now, sent.process)
        if is_released or (nominated(now) and nominated(now) != nominated(before)):
            self._reserved(now, sent.process, is_released=is_released)

    def _evicted(self, name: str, sent: Sent) -> None:
        pod = self._pods.get(name)  # as it was before: the store's change is seen after the request
        if pod is None or is_terminating(pod):
            return
        self._budgeted(pod, sent)
        uid, own = pod["metadata"]["uid"], gang_of(pod)
        state = self.gangs[own] if own else None
        for gang in self._planned_evictions(uid):
            members = self.gangs[gang].members.values()
            if max((priority_of(each) for each in members), default=0) > priority_of(pod):
                self._evictions.append(Eviction(sent.time, pod["metadata"]["name"], gang))
                return
        if state is None:
            self.violated("f", f"{sent.process} evicts pod {name}, which is a victim of no plan")
        elif state.whole_since is not None and state.whole_since < sent.begun - _RACE_SECONDS:
            text = f"{sent.process} evicts {name} of the whole gang {own} for no higher priority"
            self.violated("d", text + state.lost)
        elif state.seen_whole and state.last_whole < sent.begun - _RACE_SECONDS and node_of(pod):
            text = f"{sent.process} evicts {name} of gang {own}, which was whole, for no higher priority"
            self.violated("d", text + state.lost)

    def _budgeted(self, pod: Object, sent: Sent) -> None:
        """(b) No eviction leaves fewer pods available than a budget demands.

        A departure that no eviction caused counts once the disruption controller has had the time to see it.
        """
        if not _is_healthy(pod):
            return
        since = sent.time - max(SYNC_SECONDS) - _SLACK
        recent = [gone for time, gone in self._departures if time > since]
        for found in budgets_over(pod, self._world.api):
            healthy = sum(map(_is_healthy, covered(found, self._pods.values()))) + len(list(covered(found, recent)))
            wanted = int(found["spec"]["minAvailable"])
            self._world.counts["evictions that a budget counted"] += 1
            if healthy <= wanted:
                text = f"{sent.process} evicts {pod['metadata']['name']}, one of {healthy} healthy pods under budget"
                self.violated("b", f"{text} {found['metadata']['name']}, which needs {wanted}")

    def _planned_evictions(self, uid: str) -> Iterator[str]:
        """The gangs whose plan has the pod as a victim."""
        for (resource, namespace, name), gang in self._world.api.store.objects.items():
            if resource == GANGS:
                victims = (gang.get("status") or {}).get("victims") or ()
                if any(each.get("uid") == uid for each in victims):
                    yield f"{namespace}/{name}"

    def at_end(self) -> None:
        """Check what must hold once everything has settled."""
        for failure in self._world.failures():
            self.violated("internal error", failure)
        self._all_fitting_started()
        self._nothing_left_over()
        self._no_device_left_over()
        self._evictions_used()
        for gang, state in self.gangs.items():
            status = self._status(gang)
            bound = [each for each in state.members.values() if _runs(each)]
            if bound and len(bound) == len(state.members) >= self.minimum(gang) and status.get("phase") != "Placed":
                self.violated("status", f"gang {gang} is whole, but its phase is {status.get('phase')}")

    def _all_fitting_started(self) -> None:
        """(g) Gangs of which no member runs, all exist, and which first fit places."""
        if self._world.engine.now < self.last_disturbance + SETTLED_SECONDS:
            return
        for gang, state in sorted(self.gangs.items()):
            members = [each for each in state.members.values() if not is_terminating(each) and not is_finished(each)]
            minimum = self.minimum(gang)
            if members and self.is_leader_first(gang):
                members += members[:1] * (minimum - len(members))
            if any(node_of(each) for each in state.members.values()) or not 0 < minimum <= len(members):
                continue
            if (queue := self.queue_of(gang)) and not self._is_within_quota(queue, gang, members[:minimum]):
                self._world.counts["gangs that wait for quota at the end"] += 1
                continue
            where = self._first_fit(gang, members[:minimum])
            if where:
                said = self._status(gang).get("message", "")
                self.violated("g", f"gang {gang} fits {where}, but has not started: {said}")

    def _is_within_quota(self, queue: str, gang: str, members: list[Object]) -> bool:
        """Return whether the members fit beside all pods of the queue, and its cohort, that run or hold capacity."""
        queues = self._cohort_of(queue)
        charged = self._usage(queues, _is_charged, besides=gang)
        return charged + used(members)["cpu"] <= sum(map(self.quota_of, queues))

    def _first_fit(self, gang: str, members: list[Object]) -> str:
        """Where the members fit, placed one after another; "" if they do not, or if that is not simple."""
        nodes = [each for (resource, *_), each in self._world.api.store.objects.items() if resource == NODES]
        others = [each for each in self._pods.values() if not is_finished(each) and capacity_of(each) != gang]
        racks = sorted({each["metadata"]["labels"].get(RACK, "") for each in nodes})
        for rack in racks if self.is_level_required(gang) else [""]:
            free: dict[str, Counter[str]] = {}
            for node in nodes:
                if rack in ("", node["metadata"]["labels"].get(RACK)):
                    name = node["metadata"]["name"]
                    free[name] = allocatable(node)
                    free[name].subtract(used(each for each in others if name in (node_of(each), nominated(each))))
                    free[name][DEVICES] = self._free_devices(name, gang)
            if self._all_placed(members, nodes, free):
                return f"in rack {rack}" if rack else "in the cluster"
        return ""

    def _free_devices(self, node: str, gang: str) -> int:
        """Return how many claims fit on the devices of a node, beside those of another gang's pod or of no gang's."""
        own = set(self.gangs[gang].members)
        claims = [each for each in self._claims.values() if own.isdisjoint(e["uid"] for e in consumers_of(each))]
        taken = {device for claim in claims for device in whole_devices_of(claim)}
        slices = (each for (kind, *_), each in self._world.api.store.objects.items() if kind.plural == "resourceslices")
        return sum(
            (CAPACITY - self._consumed((node, device["name"]), claims)) // SHARE
            if device.get("allowMultipleAllocations")
            else 1
            for each in slices
            if each["spec"]["nodeName"] == node
            for device in each["spec"]["devices"]
            if (node, device["name"]) not in taken
        )

    def _all_placed(self, members: list[Object], nodes: list[Object], free: dict[str, Counter[str]]) -> bool:
        for member in map(unpinned, members):
            asked = requests_of(member)
            if entries(member):
                asked[DEVICES] = len(entries(member))
            for node in nodes:
                left = free.get(node["metadata"]["name"])
                if left is None or not is_selected(member, node) or not is_tolerated(member, node):
                    continue
                if all(left[resource] >= amount for resource, amount in asked.items()):
                    left.subtract(asked)
                    break
            else:
                return False
        return True

    def _nothing_left_over(self) -> None:
        """(h) Probes, placeholders, nominations and mirrors that no gang needs."""
        for name, pod in sorted(self._pods.items()):
            if name.startswith(f"{SYSTEM}/probe-"):
                self.violated("h", f"{name} is left over")
            gang = gang_of(pod)
            if gang and nominated(pod) and not node_of(pod) and gates_of(pod) and not self._status(gang).get("planId"):
                self.violated("h", f"pod {name} is nominated to {nominated(pod)}, but its gang has no plan")
            if name.startswith(f"{SYSTEM}/placeholder-"):
                held = capacity_of(pod)
                members = self.gangs[held].members.values()
                is_whole = len(members) >= self.minimum(held) > 0 and all(map(_runs, members))
                planned = self._status(held).get("planId")
                if is_whole or not planned or (not members and self._world.status_of(held.split("/")[1]) == {}):
                    self.violated("h", f"{name} is left over from gang {held}")

    def _no_device_left_over(self) -> None:
        """(h) Rules and claims of probes that no plan needs, and devices of pods that do not exist or have no plan."""
        plans = {str(self._status(gang).get("planId") or "") for gang in self.gangs}
        for (resource, _, name), thing in sorted(self._world.api.store.objects.items(), key=lambda each: each[0][1:]):
            if resource == RULES and thing["metadata"]["annotations"]["phalanx.dev/plan"] not in plans:
                self.violated("h", f"DeviceTaintRule {name} is left over")
        pods = {pod["metadata"]["uid"]: pod for pod in self._pods.values()}
        for name, claim in sorted(self._claims.items()):
            if name.startswith(f"{SYSTEM}/"):
                self.violated("h", f"ResourceClaim {name} is left over")
            users = [pods.get(each["uid"]) for each in consumers_of(claim)]
            if devices_of(claim) and not any(users):
                self.violated("h", f"ResourceClaim {name} has devices, and no pod uses it")
            for pod in filter(None, users):
                if gang_of(pod) and gates_of(pod) and not self._status(gang_of(pod)).get("planId"):
                    self.violated("h", f"ResourceClaim {name} has devices for a gated pod, whose gang has no plan")

    def _evictions_used(self) -> None:
        """(c) Gangs for which pods were evicted, and which then did not start, though nothing intervened."""
        for eviction in self._evictions:
            state = self.gangs[eviction.gang]
            if state.last_whole > eviction.time or self.last_disturbance >= eviction.time - 1.0:
                continue
            if self._world.engine.now > eviction.time + SETTLED_SECONDS:
                text = f"{eviction.victim} was evicted for gang {eviction.gang}, which did not start"
                self.violated("c", text)

    def minimum(self, gang: str) -> int:
        """How many members must run together; 0 if its Gang does not say."""
        spec = self._gang(gang).get("spec") or {}
        return int(spec.get("minMember") or 0)

    def is_leader_first(self, gang: str) -> bool:
        """Return whether the gang's workload creates a pod only when all before it are ready."""
        found = self._world.api.store.objects.get(_key(STATEFUL_SETS, gang))
        if found is not None:
            return is_ordered(found)
        found = self._world.api.store.objects.get(_key(LEADER_WORKER_SETS, gang.rpartition("-")[0]))
        return found is not None and bool(found["spec"]["startupPolicy"] == READY)

    def is_level_required(self, gang: str) -> bool:
        """Whether all members must be in one rack."""
        return (self._gang(gang).get("spec") or {}).get("required") == "rack"

    def _gang(self, gang: str) -> Object:
        return self._world.api.store.objects.get(_key(GANGS, gang)) or {}

    def _status(self, gang: str) -> Object:
        return self._gang(gang).get("status") or {}

    def _rack(self, node: str) -> str:
        """The rack of a node; "" if the node is gone."""
        found = self._world.api.store.objects.get((NODES, "", node))
        return str((found or {"metadata": {}})["metadata"].get("labels", {}).get(RACK, ""))


def _assigned(status: Object) -> dict[str, str]:
    """Return the planned nodes in a Gang's status, by the uid of the member."""
    return {each["uid"]: each["node"] for each in status.get("assignments") or () if each.get("uid")}


def _key(resource: Resource, name: str) -> tuple[Resource, str, str]:
    """Return the key in the store of the object `namespace/name`."""
    namespace, _, own = name.partition("/")
    return resource, namespace, own


def _is_charged(pod: Object) -> bool:
    """Return whether a queue is charged for the pod: it runs, is released, or has capacity reserved."""
    return bool(node_of(pod) or nominated(pod)) or not gates_of(pod)


def _is_healthy(pod: Object) -> bool:
    """Return whether a budget counts the pod as available."""
    return is_ready(pod) and not is_terminating(pod) and not is_finished(pod)


def _is_evicted(pod: Object) -> bool:
    """Return whether the Eviction API has taken the pod."""
    conditions = pod["status"].get("conditions") or ()
    return any(each["type"] == "DisruptionTarget" for each in conditions)


def _runs(pod: Object) -> bool:
    return bool(node_of(pod)) and not is_terminating(pod) and not is_finished(pod)
