"""Kubelets, the pod garbage collector and the disruption controller: pods run, end in their time, or do not."""

from collections.abc import Callable
from contextlib import suppress

from local_api.resources import PODS
from local_api.server import LocalApi
from local_api.store import Event, Object, RefusedError

from simulation.choices import Choices
from simulation.engine import Engine
from simulation.models.scheduler import NODES
from simulation.objects import is_terminating, node_of

READY_SECONDS = (0.02, 0.3, 2.0)
END_SECONDS = (0.05, 1.0, 4.0, 25.0)
"""How long a pod takes to end after its deletion; never longer than its grace period."""
COLLECT_SECONDS = 20.0
"""After so long the pod garbage collector deletes pods of a node that is gone (pkg/controller/podgc)."""
STUCK = "simulation/stuck"
"""A finalizer that no controller removes by itself."""
_NOW = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
_MERGE = "application/merge-patch+json"


class Kubelets:
    """All kubelets. They act on what the store holds; a real one's watch is quick beside the times simulated here."""

    def __init__(self, api: LocalApi, engine: Engine, choices: Choices) -> None:
        self.api, self.engine, self.choices = api, engine, choices
        self.end_weights = (1, 0, 0, 0)
        self.ready_weights = (1, 0, 0)
        self.on_end: Callable[[Object], None] = lambda _pod: None

    def see(self, event: Event) -> None:
        """Do what follows from a change of a pod or a node."""
        if event.resource == NODES and event.kind == "DELETED":
            name = event.object["metadata"]["name"]
            self.engine.after(COLLECT_SECONDS, lambda: self._collect(name))
        if event.resource == NODES and event.kind == "ADDED":
            for pod in self._pods_on(event.object["metadata"]["name"]):
                self._serve(pod)  # the kubelet of a node that is back ends the pods that were deleted meanwhile
        if event.resource == PODS and event.kind != "DELETED" and node_of(event.object):
            self._serve(event.object)

    def _serve(self, pod: Object) -> None:
        """Let a bound pod run, or end."""
        if is_terminating(pod):
            if pod["metadata"].get("deletionGracePeriodSeconds") != 0:
                seconds = self.choices.one_of("kubelet/end", END_SECONDS, self.end_weights)
                grace = float(pod["metadata"]["deletionGracePeriodSeconds"])
                if "simulation/slow" in (pod["metadata"].get("annotations") or {}):
                    seconds = grace
                self.engine.after(min(seconds, grace), lambda: self._end(pod))
        elif pod["status"]["phase"] == "Pending":
            seconds = self.choices.one_of("kubelet/ready", READY_SECONDS, self.ready_weights)
            self.engine.after(seconds, lambda: self._run(pod))

    def _run(self, pod: Object) -> None:
        ready = {"type": "Ready", "status": "True"}
        current = self._current(pod)
        if current is None or is_terminating(current) or not self._has_node(pod):
            return
        conditions = [*(each for each in current["status"].get("conditions", ()) if each["type"] != "Ready"), ready]
        status = {"status": {"phase": "Running", "conditions": conditions}}
        with suppress(RefusedError):
            self.api.ask("PATCH", f"{path_of(pod)}/status", status, _MERGE)

    def _end(self, pod: Object) -> None:
        if self._has_node(pod) and (current := self._current(pod)) is not None:
            if current["metadata"].get("deletionGracePeriodSeconds") == 0 and current["metadata"].get("finalizers"):
                return
            with suppress(RefusedError):
                self.api.ask("DELETE", path_of(pod), _NOW)

    def _collect(self, name: str) -> None:
        if (NODES, "", name) in self.api.store.objects:
            return
        for pod in self._pods_on(name):
            with suppress(RefusedError):
                self.api.ask("DELETE", path_of(pod), _NOW)

    def _pods_on(self, name: str) -> list[Object]:
        """Return the pods that are bound to a node."""
        pods = [each for (resource, _, _), each in self.api.store.objects.items() if resource == PODS]
        return [pod for pod in pods if node_of(pod) == name]

    def _current(self, pod: Object) -> Object | None:
        meta = pod["metadata"]
        found = self.api.store.objects.get((PODS, meta["namespace"], meta["name"]))
        return found if found is not None and found["metadata"]["uid"] == meta["uid"] else None

    def _has_node(self, pod: Object) -> bool:
        return (NODES, "", node_of(pod)) in self.api.store.objects


def path_of(pod: Object) -> str:
    """Where the API server has the pod."""
    meta = pod["metadata"]
    return f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
