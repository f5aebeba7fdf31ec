"""Invariants of every system test, checked on what the API server reports about pods, nodes and Gangs.

`violations` is a function of watch events. `conftest.py` records the events beside each test and calls it at the end.
The letters are those of the simulation's invariants (docs/decisions/0035).
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from controlplane.recording import WatchEvent, bound
from kube.keys import DIALECT, GANG, GATE, PLAN, RELEASED, SYSTEM_NAMESPACE
from kube.quantities import amount

Object = dict[str, Any]
Name = tuple[str, str]
"""Namespace and name of a pod."""

_TERMINAL = ("Succeeded", "Failed")
PODS_RESOURCE = "pods"
EVERY_POD = "*"
"""All names: a test deletes pods by a selector."""


class Invariant(Enum):
    """A promise that no system test may break. The value describes the violation."""

    PARTLY_BOUND = "(a) a gang was bound in part for too long"
    OVERCOMMITTED = "(b) a member was bound to a node without the capacity for it"
    NOT_RELEASED = "(e) a member was bound that Phalanx had not gated and released"
    VANISHED = "(f) a running pod disappeared without a deletion"


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken promise: which, by which pod, node or plan, and the figures."""

    invariant: Invariant
    name: str
    detail: str

    def __str__(self) -> str:
        """One line for the report of the failed test."""
        return f"{self.invariant.value}: {self.name}: {self.detail}"


@dataclass(slots=True)
class _Pod:
    """The last version of a pod, and what its earlier versions had."""

    object: Object
    gated: bool = False
    deleting: bool = False
    gang: str = ""
    """The identity of the gang, or of the plan while no Gang has recorded that plan; "": no plan named the pod yet."""

    @property
    def node(self) -> str:
        return str(self.object["spec"].get("nodeName") or "")

    @property
    def terminal(self) -> bool:
        return self.object.get("status", {}).get("phase") in _TERMINAL

    @property
    def labels(self) -> Object:
        return self.object["metadata"].get("labels") or {}

    @property
    def annotations(self) -> Object:
        return self.object["metadata"].get("annotations") or {}


@dataclass(slots=True)
class _Gang:
    """How a gang starts. `planned`: the most pods that one plan named at the same time."""

    planned: int = 0
    minimum: int | None = None
    partly_since: float | None = None
    whole: bool = False


@dataclass(slots=True)
class _Cluster:
    """The state that the events so far add up to."""

    partly_seconds: float
    forced: Collection[str]
    pods: dict[Name, _Pod] = field(default_factory=dict)
    allocatable: dict[str, Object] = field(default_factory=dict)
    gang_of_plan: dict[str, str] = field(default_factory=dict)
    gangs: dict[str, _Gang] = field(default_factory=dict)

    def node(self, event: WatchEvent) -> None:
        if event.type == "DELETED":
            self.allocatable.pop(event.name, None)
        else:
            self.allocatable[event.name] = event.object.get("status", {}).get("allocatable") or {}

    def gang(self, event: WatchEvent) -> None:
        """Learn which gang a plan is of, and the gang's minimum."""
        plan = (event.object.get("status") or {}).get("planId")
        if event.type == "DELETED" or not plan:
            return
        identity = f"{event.object['metadata'].get('namespace', '')}/{event.name}"
        known = self.gangs.setdefault(identity, _Gang())
        known.minimum = _minimum(event.object.get("spec") or {})
        if self.gang_of_plan.get(plan) != identity:
            self.gang_of_plan[plan] = identity
            early = self.gangs.pop(plan, None)
            if early is not None:
                known.planned = max(known.planned, early.planned)
                known.partly_since = known.partly_since or early.partly_since
            for pod in self.pods.values():
                if pod.gang == plan:
                    pod.gang = identity

    def pod(self, event: WatchEvent) -> Iterator[Violation]:
        """Take the event of a pod in. Pods that were there before the first event are not judged."""
        name = (str(event.object["metadata"].get("namespace", "")), event.name)
        if event.type == "ADDED":
            self.pods[name] = _Pod(event.object)
        pod = self.pods.get(name)
        if pod is None:
            return
        before = "" if event.type == "ADDED" else pod.node
        if event.type == "DELETED":
            yield from self._deleted(name, pod)
            pod.object = event.object
            del self.pods[name]
        else:
            pod.object = event.object
            pod.gated |= {"name": GATE} in (event.object["spec"].get("schedulingGates") or ())
            pod.deleting |= "deletionTimestamp" in event.object["metadata"]
            if event.type != "ADDED" and bound(event) and not before:
                yield from self._bound(name, pod)
        plan = pod.annotations.get(PLAN)
        if plan and name[0] != SYSTEM_NAMESPACE:  # placeholders and probes are no members
            pod.gang = self.gang_of_plan.get(plan) or plan
        if pod.gang:
            yield from self._partly(pod.gang, event.at)

    def _deleted(self, name: Name, pod: _Pod) -> Iterator[Violation]:
        """A pod without a grace period, or one that ended by itself, goes at once: only others show that they go."""
        graceful = pod.object["spec"].get("terminationGracePeriodSeconds", 30) > 0
        forced = not {name[1], EVERY_POD}.isdisjoint(self.forced)
        if pod.node and graceful and not (pod.deleting or pod.terminal or forced):
            yield Violation(Invariant.VANISHED, "/".join(name), f"it ran on {pod.node}")

    def _bound(self, name: Name, pod: _Pod) -> Iterator[Violation]:
        """Check a pod that the scheduler has just bound. A pod that is created with its node never gets here."""
        if not {GANG, DIALECT} & pod.labels.keys():
            return
        if not pod.gated or RELEASED not in pod.annotations:
            how = "it never had the gate" if not pod.gated else "it was not released"
            yield Violation(Invariant.NOT_RELEASED, "/".join(name), f"bound to {pod.node}; {how}")
        allocatable = self.allocatable.get(pod.node)
        if allocatable is None:
            return
        tenants = [each.object for each in self.pods.values() if each.node == pod.node and not each.terminal]
        for resource in sorted(requests(pod.object)):
            asked = sum(requests(each).get(resource, 0) for each in tenants)
            capacity = amount(resource, allocatable.get(resource, "0"))
            if asked > capacity:
                detail = f"{resource}: {asked} requested with {'/'.join(name)}, {capacity} allocatable"
                yield Violation(Invariant.OVERCOMMITTED, pod.node, detail)

    def _partly(self, identity: str, now: float) -> Iterator[Violation]:
        """Judge how a gang starts. While pods of the minimum do not exist, it is a leader-first start, or a repair."""
        gang = self.gangs.setdefault(identity, _Gang())
        alive = [each for each in self.pods.values() if each.gang == identity and not each.terminal]
        running = sum(bool(each.node) and not each.deleting for each in alive)
        gang.planned = max(gang.planned, len(alive))
        needed = gang.planned if gang.minimum is None else gang.minimum
        gang.whole = running >= needed or (gang.whole and running > 0)
        if gang.whole or not running or len(alive) < needed:
            yield from self.ended(identity, now)
        elif gang.partly_since is None:
            gang.partly_since = now

    def ended(self, identity: str, now: float) -> Iterator[Violation]:
        """Close the time for which a gang was bound in part."""
        gang = self.gangs[identity]
        if gang.partly_since is not None and now - gang.partly_since > self.partly_seconds:
            detail = f"{now - gang.partly_since:.1f} s, and {self.partly_seconds:g} s are allowed"
            yield Violation(Invariant.PARTLY_BOUND, identity, detail)
        gang.partly_since = None


def violations(
    events: Iterable[WatchEvent], partly_seconds: float, until: float, forced: Collection[str] = ()
) -> Sequence[Violation]:
    """Return the violations that events of Pods, Nodes and Gangs show, in the order of their time.

    `partly_seconds`: how long a gang may be bound in part. `until`: the time at which the recording ended, on the
    clock of the events. `forced`: names of pods that the test itself deletes without a grace period, or `EVERY_POD`.
    """
    cluster, found = _Cluster(partly_seconds, forced), list[Violation]()
    for event in sorted(events, key=lambda each: each.at):
        match event.object.get("kind"):
            case "Node":
                cluster.node(event)
            case "Gang":
                cluster.gang(event)
            case "Pod":
                found += cluster.pod(event)
    for identity in cluster.gangs:
        found += cluster.ended(identity, until)
    return found


def forced_by_kubectl(arguments: Sequence[str]) -> set[str]:
    """Return the names of pods that a call of kubectl deletes without a grace period."""
    if "delete" not in arguments or not {"--force", "--grace-period=0", "--now"} & set(arguments):
        return set()
    words = [each for each in arguments[arguments.index("delete") + 1 :] if not each.startswith("-")]
    names = [each for number, each in enumerate(words) if number or "/" in each]  # the first word may be the kind
    return {each.rpartition("/")[2] for each in names} or {EVERY_POD}


def forced_by_request(method: str, path: str, body: object) -> set[str]:
    """Return the names of pods that a request deletes without a grace period."""
    last = path.partition("?")[0].rpartition("/")[2]
    now = isinstance(body, dict) and body.get("gracePeriodSeconds") == 0
    return {EVERY_POD if last == "pods" else last} if method == "DELETE" and now else set()


def requests(pod: Object) -> dict[str, int]:
    """Return what the scheduler reserves for a pod, by resource in base units; the pod itself counts as one of `pods`.

    Sidecars are init containers that always restart; they run beside the containers (KEP-753).
    """
    spec = pod["spec"]
    running, starting = dict[str, int](), dict[str, int]()
    for each in spec.get("initContainers") or ():
        if each.get("restartPolicy") == "Always":
            _add(running, _requested(each))
            _raise_to(starting, running)
        else:
            _raise_to(starting, _sum(running, _requested(each)))
    for each in spec.get("containers") or ():
        _add(running, _requested(each))
    _raise_to(running, starting)
    _add(running, {name: amount(name, value) for name, value in (spec.get("overhead") or {}).items()})
    return running | {PODS_RESOURCE: 1}


def _requested(container: Object) -> dict[str, int]:
    asked = (container.get("resources") or {}).get("requests") or {}
    return {resource: amount(resource, quantity) for resource, quantity in asked.items()}


def _sum(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in one | other}


def _add(total: dict[str, int], more: dict[str, int]) -> None:
    total |= _sum(total, more)


def _raise_to(total: dict[str, int], least: dict[str, int]) -> None:
    total |= {name: max(total.get(name, 0), value) for name, value in least.items()}


def _minimum(spec: Object) -> int | None:
    """Return the pods that a Gang needs to run. None: all that its plan names."""
    sets = spec.get("podSets") or ()
    counted = [each.get("minCount", each.get("count")) for each in sets]
    numbers = [each for each in (spec.get("minMember"), sum(n for n in counted if n)) if each]
    return max(numbers) if numbers else None
