"""The base of the models of workload controllers: when they act, which pods they own, and the garbage collector.

Admission is the product's own `as_admitted` for the workload, and `WorkloadController.create` for its pods.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import ClassVar

from local_api.resources import GANGS, PODS, Resource
from local_api.server import LocalApi
from local_api.store import Event, Object, RefusedError

from simulation.choices import Choices
from simulation.engine import Action, Engine
from simulation.objects import GATE

SYNC_SECONDS = (0.01, 0.2, 2.0)
"""How long a workload controller takes to see a change and act on it."""
COLLECT_SECONDS = 0.5
"""How long the garbage collector takes."""
_BUSY_SECONDS = 0.05
"""How often a workload is tried that another worker reconciles."""
PODS_PATH = "/api/v1/namespaces/default/pods"


class WorkloadController(ABC):
    """Acts on what the store holds, some time after each change."""

    resource: ClassVar[Resource]
    """The workloads that it reconciles."""

    def __init__(self, api: LocalApi, engine: Engine, choices: Choices) -> None:
        self.api, self.engine, self.choices = api, engine, choices
        self.weights = (1, 0, 0)
        """Weights of `SYNC_SECONDS`."""
        self.create: Callable[[Object, Action], None] = self.create_gated
        """Creates a pod after admission. Calls the action if it refuses the pod."""
        self._due: set[str] = set()
        self._syncing: set[str] = set()
        """Workloads whose reconciliation waits for an answer: a work queue gives a key to one worker at a time."""

    def see(self, event: Event) -> None:
        """Reconcile the workload that a change concerns, later."""
        meta = event.object["metadata"]
        if event.resource == self.resource:
            if event.kind == "DELETED":
                self.engine.after(COLLECT_SECONDS, lambda: self._collect(meta["uid"]))
            self._wake(meta["name"])
        elif event.resource == PODS:
            for owner in self._owners(event.object):
                self._wake(owner["name"])
                if event.kind == "ADDED" and not self._exists(owner):
                    self.engine.after(COLLECT_SECONDS, partial(self._collect, owner["uid"]))

    def _wake(self, name: str) -> None:
        if name not in self._due:
            self._due.add(name)
            seconds = self.choices.one_of(f"{self.resource.plural}/sync", SYNC_SECONDS, self.weights)
            self.engine.after(seconds, lambda: self._sync(name))

    def _exists(self, owner: Object) -> bool:
        found = self.api.store.objects.get((self.resource, "default", owner["name"]))
        return found is not None and bool(found["metadata"]["uid"] == owner["uid"])

    def _sync(self, name: str) -> None:
        if name in self._syncing:
            self.engine.after(_BUSY_SECONDS, lambda: self._sync(name))
            return
        self._due.discard(name)
        found = self.api.store.objects.get((self.resource, "default", name))
        if found is not None:
            self._syncing.add(name)
            self.reconcile(found, list(self._pods(found["metadata"]["uid"])))
            self._syncing.discard(name)

    @abstractmethod
    def reconcile(self, workload: Object, pods: list[Object]) -> None:
        """Create and delete pods as the workload says. `pods`: the pods that it owns."""

    def make(self, workload: Object, metadata: Object, labels: Mapping[str, str], annotations: Object) -> None:
        """Create a gated pod from the template. `metadata`: its name, or the beginning of it."""
        meta, template = workload["metadata"], workload["spec"]["template"]
        owner = {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "name": meta["name"],
            "uid": meta["uid"],
            "controller": True,
        }
        whole = {
            **metadata,
            "namespace": "default",
            "labels": {**template["metadata"].get("labels", {}), **labels},
            "annotations": annotations,
            "ownerReferences": [owner],
        }
        self.create({"metadata": whole, "spec": template["spec"]}, lambda: self._wake(meta["name"]))

    def create_gated(self, pod: Object, _refused: Action) -> None:
        """Create a pod as the webhook admits it at least: with the gate and the label of its dialect."""
        with suppress(RefusedError):
            self.api.ask("POST", PODS_PATH, gated(pod))

    def delete(self, pod: Object) -> None:
        """Delete a pod."""
        with suppress(RefusedError):
            self.api.ask("DELETE", f"{PODS_PATH}/{pod['metadata']['name']}")

    def _pods(self, uid: str) -> Iterator[Object]:
        for (resource, _, _), pod in list(self.api.store.objects.items()):
            if resource == PODS and any(owner["uid"] == uid for owner in self._owners(pod)):
                yield pod

    def _collect(self, uid: str) -> None:
        """Delete the dependents of an object that is gone."""
        for pod in self._pods(uid):
            self.delete(pod)
        for (resource, _, name), gang in list(self.api.store.objects.items()):
            if resource == GANGS and any(owner["uid"] == uid for owner in self._owners(gang)):
                with suppress(RefusedError):
                    self.api.ask("DELETE", f"/apis/phalanx.dev/v1alpha1/namespaces/default/gangs/{name}")

    def _owners(self, thing: Object) -> list[Object]:
        owners = thing["metadata"].get("ownerReferences") or ()
        return [each for each in owners if each["kind"] == self.resource.kind]


def gated(pod: Object) -> Object:
    """Return a pod as the webhook admits it at least: with the gate and the label of its dialect."""
    meta = {**pod["metadata"], "labels": {**pod["metadata"]["labels"], "phalanx.dev/dialect": "phalanx"}}
    return {**pod, "metadata": meta, "spec": {**pod["spec"], "schedulingGates": [{"name": GATE}]}}


def pod_template(cpu: int, priority: str, **spec: str) -> Object:
    """A pod template of one container with this request."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": str(cpu)}}}
    named = {"priorityClassName": priority} if priority else {}
    return {"metadata": {}, "spec": {"containers": [container], **spec, **named}}
