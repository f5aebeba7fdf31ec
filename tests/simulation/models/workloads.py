"""What the models of workload controllers share: when they act, the pods they own, and the garbage collector.

Admission is the product's own `as_admitted` for the workload, and `WorkloadController.admit` for its pods.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import ClassVar

from local_api.resources import GANGS, PODS, Resource
from local_api.server import LocalApi
from local_api.store import Event, Object, RefusedError

from simulation.choices import Choices
from simulation.engine import Engine
from simulation.objects import GATE

SYNC_SECONDS = (0.01, 0.2, 2.0)
"""How long a workload controller takes to see a change and act on it."""
RETRY_SECONDS = 1.0
"""After so long a workload controller creates a pod again that admission refused."""
COLLECT_SECONDS = 0.5
"""How long the garbage collector takes."""
_PODS_PATH = "/api/v1/namespaces/default/pods"


class WorkloadController(ABC):
    """Acts on what the store holds, some time after each change."""

    resource: ClassVar[Resource]
    """The workloads that it reconciles."""

    def __init__(self, api: LocalApi, engine: Engine, choices: Choices) -> None:
        self.api, self.engine, self.choices = api, engine, choices
        self.weights = (1, 0, 0)
        """Weights of `SYNC_SECONDS`."""
        self.admit: Callable[[Object], Object | None] = gated
        """Return a new pod as admission changes it; None if admission refuses it now."""
        self._due: set[str] = set()

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

    def _wake(self, name: str) -> None:
        if name not in self._due:
            self._due.add(name)
            seconds = self.choices.one_of(f"{self.resource.plural}/sync", SYNC_SECONDS, self.weights)
            self.engine.after(seconds, lambda: self._sync(name))

    def _sync(self, name: str) -> None:
        self._due.discard(name)
        found = self.api.store.objects.get((self.resource, "default", name))
        if found is not None:
            self.reconcile(found, list(self._pods(found["metadata"]["uid"])))

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
        pod = self.admit({"metadata": whole, "spec": template["spec"]})
        if pod is None:
            self.engine.after(RETRY_SECONDS, lambda: self._wake(meta["name"]))
            return
        with suppress(RefusedError):
            self.api.ask("POST", _PODS_PATH, pod)

    def delete(self, pod: Object) -> None:
        """Delete a pod."""
        with suppress(RefusedError):
            self.api.ask("DELETE", f"{_PODS_PATH}/{pod['metadata']['name']}")

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
