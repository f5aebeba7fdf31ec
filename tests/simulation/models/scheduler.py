"""kube-scheduler: binds pods by what its own watches have shown it, and preempts.

The rules are those of Kubernetes 1.37, pkg/scheduler. The queue is ordered by priority, then by age. Nominated pods of
at least the same priority hold their node (framework/runtime `RunFilterPluginsWithNominatedPods`), gated ones too.
The nominated node is tried first (`schedule_one.go`, `evaluateNominatedNode`). A preempting pod clears the nominations
of lower-priority pods on its node (framework/preemption `prepareCandidate`).

A scheduler before 1.37 `forgets`: after its restart it does not count the nomination of a gated pod until the pod
changes (`scheduling_queue.go`, `moveToActiveQ` returns before a gated pod is entered among the nominated).

A pod with claims is nominated in the binding cycle, then its claims are written, then it is bound (`schedule_one.go`,
`bindingCycle`). If that fails, the pod loses its nomination, and is tried again after a back-off.
"""

from collections.abc import Iterable
from contextlib import suppress

from local_api.resources import CLAIMS, PODS, RESOURCES, RULES
from local_api.server import LocalApi
from local_api.store import Event, Object, RefusedError

from simulation.choices import Choices
from simulation.engine import Action
from simulation.models.budgets import budgets_over
from simulation.models.devices import Allocator, Chosen, entries
from simulation.network import Process
from simulation.objects import (
    allocatable,
    gates_of,
    is_finished,
    is_selected,
    is_terminating,
    is_tolerated,
    node_of,
    nominated,
    priority_of,
    requests_of,
    used,
)
from simulation.watches import PlainFeed, WatchHub

NODES = next(each for each in RESOURCES if each.plural == "nodes")
CYCLE_SECONDS = (0.002, 0.02, 0.3, 2.5)
"""How long the scheduler takes until it looks at its queue: usual, busy, very busy, hanging."""
BIND_SECONDS = (0.003, 0.05, 0.5)
"""How long a binding takes after the decision."""
BACK_OFF_SECONDS = 1.0
"""How long a pod waits after a binding cycle that failed (`podInitialBackoffSeconds`)."""
_STRATEGIC = "application/strategic-merge-patch+json"


class Scheduler:
    """One scheduler. `preempts`: whether it evicts pods of lower priority. `forgets`: whether it is older than 1.37."""

    def __init__(
        self, hub: WatchHub, process: Process, choices: Choices, *, preempts: bool = True, forgets: bool = False
    ) -> None:
        self.api: LocalApi = hub.api
        self.process, self.choices, self.preempts, self.forgets = process, choices, preempts, forgets
        self.paused = False
        self.cycle_weights = (1, 0, 0, 0)
        self.bind_weights = (1, 0, 0)
        self._hub = hub
        self._pods: dict[str, Object] = {}
        self._nodes: dict[str, Object] = {}
        self._assumed: dict[str, str] = {}
        """By uid: the node of a pod whose binding is under way."""
        self._tried: dict[str, int] = {}
        """By uid: the number of changes seen when the pod was last found unschedulable."""
        self._uncounted: set[str] = set()
        """The UIDs of gated pods whose nominations do not count, because the scheduler has restarted since."""
        self._changes = 0
        self._due = False
        self._starts = 0
        self.allocator: Allocator | None = None
        """The plugin DynamicResources; None: no pod has claims."""
        self._backing_off: set[str] = set()
        """The UIDs of pods whose binding cycle has failed a moment ago."""

    def start(self) -> None:
        """List and watch."""
        store = self.api.store
        for (resource, _, _), thing in store.objects.items():
            if resource == PODS:
                self._pods[thing["metadata"]["uid"]] = thing
                if self.forgets and gates_of(thing):
                    self._uncounted.add(thing["metadata"]["uid"])
            elif resource == NODES:
                self._nodes[thing["metadata"]["name"]] = thing
        self._hub.add(PlainFeed(self._hub, self.process, PODS, self._take_pod))
        self._hub.add(PlainFeed(self._hub, self.process, NODES, self._take_node))
        if self.allocator is not None:
            self.allocator.read_all()
            for resource in (CLAIMS, RULES):
                self._hub.add(PlainFeed(self._hub, self.process, resource, self._take_device))
        self._wake()

    def restart(self, seconds: float) -> None:
        """End the process, with all that it remembers, and start a new one after so many seconds."""
        self.process.end()
        self._hub.drop(self.process)
        self._starts += 1
        base = self.process.name.partition(".")[0]
        self.process = Process(f"{base}.{self._starts}", self.process.engine)
        for memory in (self._pods, self._nodes, self._assumed, self._tried, self._uncounted, self._backing_off):
            memory.clear()
        self._due = False
        self.process.later(seconds, self.start)

    def wake(self) -> None:
        """Try every pod again."""
        self._changes += 1
        self._wake()

    def _take_pod(self, event: Event) -> None:
        uid = event.object["metadata"]["uid"]
        self._uncounted.discard(uid)
        if event.kind == "DELETED":
            self._pods.pop(uid, None)
            self._assumed.pop(uid, None)
            self._tried.pop(uid, None)
        else:
            self._pods[uid] = event.object
            if node_of(event.object):
                self._assumed.pop(uid, None)
        self._changes += 1
        self._wake()

    def _take_node(self, event: Event) -> None:
        name = event.object["metadata"]["name"]
        if event.kind == "DELETED":
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = event.object
        self._changes += 1
        self._wake()

    def _take_device(self, event: Event) -> None:
        assert self.allocator is not None
        self.allocator.take(event)
        self._changes += 1
        self._wake()

    def _wake(self) -> None:
        if not self._due and not self.paused:
            self._due = True
            seconds = self.choices.one_of(f"{self.process.name}/cycle", CYCLE_SECONDS, self.cycle_weights)
            self.process.later(seconds, self._cycle)

    def _cycle(self) -> None:
        """Try the pod at the head of the queue, and come again while there are others."""
        self._due = False
        if self.paused:
            return
        ready = [pod for uid, pod in self._pods.items() if self._is_ready(uid, pod)]
        if not ready:
            return
        pod = min(ready, key=lambda p: (-priority_of(p), p["metadata"]["creationTimestamp"], p["metadata"]["name"]))
        self._try(pod)
        if len(ready) > 1:
            self._wake()

    def _is_ready(self, uid: str, pod: Object) -> bool:
        return not (
            node_of(pod)
            or gates_of(pod)
            or uid in self._assumed
            or is_terminating(pod)
            or is_finished(pod)
            or pod["spec"].get("schedulerName", "default-scheduler") != "default-scheduler"
            or self._tried.get(uid) == self._changes
            or uid in self._backing_off
            or (self._has_claims(pod) and self.allocator is not None and not self.allocator.is_ready(pod))
        )

    def _has_claims(self, pod: Object) -> bool:
        return self.allocator is not None and bool(entries(pod))

    def _try(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        able = [name for name in sorted(self._nodes) if self._fits(pod, name)]
        chosen = {name: devices for name in able if (devices := self._choose(pod, name)) is not None}
        fitting = list(chosen)
        if fitting:
            first = self.choices.number(f"{self.process.name}/node", len(fitting))
            node = nominated(pod) if nominated(pod) in fitting else fitting[first]
            self._assumed[uid] = node
            if self.allocator is not None and (unwritten := self.allocator.unwritten(pod, chosen[node])):
                self.allocator.reserve(chosen[node])
                self._write(pod, {"nominatedNodeName": node})
                self._soon(lambda: self._write_claims(pod, node, chosen[node], unwritten))
            else:
                self._soon(lambda: self._bind(pod, node))
            return
        if self.allocator is not None:
            self.allocator.deallocate(pod, [self._nodes[name] for name in able])
        self._tried[uid] = self._changes
        node = self._preempt(pod) if self.preempts else ""
        if self.forgets and not node and nominated(pod) and not self._never_preempts(pod) and not self._awaited(pod):
            self._write(pod, {"nominatedNodeName": None})
        conditions = pod["status"].get("conditions") or ()
        said: Object = next((each for each in conditions if each["type"] == "PodScheduled"), {})
        refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node fits"}
        if node or any(said.get(key) != value for key, value in refused.items()):
            status = {"conditions": [refused], **({"nominatedNodeName": node} if node else {})}
            self._write(pod, status)

    def _choose(self, pod: Object, name: str) -> Chosen | None:
        """Return devices of the node for the pod's claims; None if there are too few."""
        return self.allocator.choose(pod, self._nodes[name]) if self.allocator is not None and entries(pod) else {}

    def _soon(self, action: Action) -> None:
        """Carry out the next step of a binding cycle some time later."""
        seconds = self.choices.one_of(f"{self.process.name}/bind", BIND_SECONDS, self.bind_weights)
        self.process.later(seconds, action)

    def _write_claims(self, pod: Object, node: str, chosen: Chosen, left: list[str]) -> None:
        """Write one claim after the other, then bind the pod."""
        assert self.allocator is not None
        if not left:
            self._bind(pod, node)
        elif self.allocator.write(pod, node, left[0], chosen[left[0]]):
            self._soon(lambda: self._write_claims(pod, node, chosen, left[1:]))
        else:
            self._fail(pod)

    def _fail(self, pod: Object) -> None:
        """End a binding cycle that has failed."""
        uid = pod["metadata"]["uid"]
        if self.allocator is not None:
            self.allocator.unreserve(pod)
        self._assumed.pop(uid, None)
        self._changes += 1
        self._backing_off.add(uid)
        failed = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": "binding failed"}
        self._write(pod, {"conditions": [failed], "nominatedNodeName": None})

        def again() -> None:
            self._backing_off.discard(uid)
            self._wake()

        self.process.later(BACK_OFF_SECONDS, again)

    def _write(self, pod: Object, status: Object) -> None:
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/status"
        patch = {"metadata": {"uid": meta["uid"]}, "status": status}
        with suppress(RefusedError):
            self.api.ask("PATCH", path, patch, _STRATEGIC)

    def _bind(self, pod: Object, node: str) -> None:
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding"
        try:
            self.api.ask("POST", path, {"metadata": {"uid": meta["uid"]}, "target": {"name": node}})
        except RefusedError:
            if self._has_claims(pod):
                self._fail(pod)
                return
            self._assumed.pop(meta["uid"], None)
            self._changes += 1
            self._wake()

    def _fits(self, pod: Object, name: str, without: Iterable[str] = ()) -> bool:
        node = self._nodes[name]
        if not is_selected(pod, node) or not is_tolerated(pod, node):
            return False
        there = [each for uid, each in self._holding(pod, name) if uid not in without]
        free = allocatable(node)
        free.subtract(used(there))
        return all(free[resource] >= amount for resource, amount in requests_of(pod).items())

    def _holding(self, pod: Object, name: str) -> Iterable[tuple[str, Object]]:
        """The pods that use the node, or hold it against this pod by their nomination."""
        for uid, other in self._pods.items():
            if uid == pod["metadata"]["uid"] or is_finished(other):
                continue
            if (node_of(other) or self._assumed.get(uid, "")) == name:
                yield uid, other
            elif node_of(other) or uid in self._assumed or uid in self._uncounted or nominated(other) != name:
                continue
            elif priority_of(other) >= priority_of(pod):
                yield uid, other

    def _preempt(self, pod: Object) -> str:
        """Evict pods of lower priority for this one, against the fewest budgets, then the fewest pods.

        Return the node; "" if that does not help.
        """
        if self._never_preempts(pod):
            return ""
        found: list[tuple[int, int, str, list[str]]] = []
        for name in sorted(self._nodes):
            lower = [uid for uid, other in self._pods.items() if self._is_lower(other, pod, name)]
            if any(is_terminating(self._pods[uid]) for uid in lower) and nominated(pod) == name:
                return ""  # its victims are on their way out
            if lower and self._fits(pod, name, lower) and self._choose(pod, name) is not None:
                victims = self._fewest(pod, name, lower)
                found.append((len(self._against_budgets(victims)), len(victims), name, victims))
        if not found:
            return ""
        *_, node, victims = min(found)
        for uid in victims:
            self._evict(self._pods[uid])
        for other in list(self._pods.values()):
            if nominated(other) == node and not node_of(other) and priority_of(other) < priority_of(pod):
                self._write(other, {"nominatedNodeName": None})
        return node

    @staticmethod
    def _never_preempts(pod: Object) -> bool:
        return bool(pod["spec"].get("preemptionPolicy") == "Never")

    def _awaited(self, pod: Object) -> bool:
        """Whether pods of lower priority terminate on the pod's nominated node: then it keeps its nomination."""
        name = nominated(pod)
        return any(self._is_lower(other, pod, name) and is_terminating(other) for other in self._pods.values())

    def _is_lower(self, other: Object, pod: Object, name: str) -> bool:
        """Whether the other pod runs on the node and has a lower priority."""
        return node_of(other) == name and not is_finished(other) and priority_of(other) < priority_of(pod)

    def _fewest(self, pod: Object, name: str, lower: list[str]) -> list[str]:
        """The victims that remain when each pod is spared that can be: those that budgets protect first, then the most
        important (framework/plugins/defaultpreemption `SelectVictimsOnNode`).
        """
        victims, against = list(lower), self._against_budgets(lower)
        for uid in sorted(lower, key=lambda uid: (uid not in against, -priority_of(self._pods[uid]))):
            fewer = [each for each in victims if each != uid]
            if self._fits(pod, name, fewer):
                victims = fewer
        return victims

    def _against_budgets(self, victims: list[str]) -> set[str]:
        """The pods whose eviction a budget does not allow, after that of the pods before them."""
        allowed: dict[str, int] = {}
        found = set()
        for uid in victims:
            for budget in budgets_over(self._pods[uid], self.api):
                name, status = budget["metadata"]["name"], budget["status"]
                if self._pods[uid]["metadata"]["name"] not in status.get("disruptedPods", {}):
                    allowed[name] = allowed.get(name, status["disruptionsAllowed"]) - 1
                    if allowed[name] < 0:
                        found.add(uid)
        return found

    def _evict(self, pod: Object) -> None:
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        with suppress(RefusedError):
            self.api.ask("DELETE", path, {"preconditions": {"uid": meta["uid"]}})
