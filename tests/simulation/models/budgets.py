"""The disruption controller: PodDisruptionBudgets are counted, some time after each change of their pods.

The rules are those of Kubernetes 1.37, pkg/controller/disruption/disruption.go, for budgets with a whole number as
`minAvailable`. A pod is healthy if it is ready, not terminating, and the API server has accepted no eviction of it
(`countHealthyPods`). The controller forgets an accepted eviction when the pod terminates or is gone, or after 2 minutes
(`buildDisruptedPodMap`).
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta

from local_api.resources import BUDGETS, PODS
from local_api.server import LocalApi
from local_api.store import Event, Object, RefusedError

from simulation.choices import Choices
from simulation.engine import Engine
from simulation.models.workloads import SYNC_SECONDS
from simulation.objects import is_finished, is_ready, is_terminating

BUDGETS_PATH = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
_DELETION_TIMEOUT = timedelta(minutes=2)


def budget(name: str, labels: dict[str, str], available: int) -> Object:
    """A budget that keeps so many of the pods with these labels available."""
    spec = {"minAvailable": available, "selector": {"matchLabels": labels}}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def budgets_over(pod: Object, api: LocalApi) -> Iterator[Object]:
    """The budgets that cover the pod."""
    labels, namespace = (pod["metadata"].get("labels") or {}).items(), pod["metadata"].get("namespace")
    for (resource, where, _), found in api.store.objects.items():
        if resource == BUDGETS and where == namespace and found["spec"]["selector"]["matchLabels"].items() <= labels:
            yield found


def covered(found: Object, pods: Iterable[Object]) -> Iterator[Object]:
    """The pods that a budget covers."""
    wanted, namespace = found["spec"]["selector"]["matchLabels"].items(), found["metadata"]["namespace"]
    for pod in pods:
        meta = pod["metadata"]
        if meta.get("namespace") == namespace and wanted <= (meta.get("labels") or {}).items():
            yield pod


class DisruptionController:
    """Counts budgets."""

    def __init__(self, api: LocalApi, engine: Engine, choices: Choices) -> None:
        self.api, self.engine, self.choices = api, engine, choices
        self.weights = (1, 0, 0)
        """Weights of `SYNC_SECONDS`."""
        self._due: set[str] = set()

    def see(self, event: Event) -> None:
        """Count the budgets that a change concerns, later."""
        if event.resource == BUDGETS and event.kind != "DELETED":
            self._wake(event.object)
        elif event.resource == PODS:
            for found in list(budgets_over(event.object, self.api)):
                self._wake(found)

    def _wake(self, found: Object) -> None:
        name = found["metadata"]["name"]
        if name not in self._due:
            self._due.add(name)
            seconds = self.choices.one_of("budgets/sync", SYNC_SECONDS, self.weights)
            self.engine.after(seconds, lambda: self._sync(name))

    def _sync(self, name: str) -> None:
        self._due.discard(name)
        found = self.api.store.objects.get((BUDGETS, "default", name))
        if found is None:
            return
        pods = [pod for (resource, *_), pod in self.api.store.objects.items() if resource == PODS]
        whole = {**found, "status": self._counted(found, list(covered(found, pods)))}
        if whole["status"] != found.get("status"):
            with suppress(RefusedError):
                self.api.ask("PUT", f"{BUDGETS_PATH}/{name}/status", whole)

    def _counted(self, found: Object, pods: list[Object]) -> Object:
        """The status of a budget."""
        old, now = found.get("status") or {}, self.api.store.clock.wall()
        pods = [pod for pod in pods if not is_finished(pod)]
        remaining = {pod["metadata"]["name"] for pod in pods if not is_terminating(pod)}
        evicted = {
            name: since
            for name, since in (old.get("disruptedPods") or {}).items()
            if name in remaining and now < datetime.fromisoformat(since) + _DELETION_TIMEOUT
        }
        healthy = sum(is_ready(pod) and pod["metadata"]["name"] in remaining - evicted.keys() for pod in pods)
        wanted = int(found["spec"]["minAvailable"])
        allowed = max(0, healthy - wanted) if pods else 0
        status: Object = {
            "observedGeneration": found["metadata"]["generation"],
            "expectedPods": len(pods),
            "currentHealthy": healthy,
            "desiredHealthy": wanted,
            "disruptionsAllowed": allowed,
        }
        return {**status, "disruptedPods": evicted} if evicted else status
