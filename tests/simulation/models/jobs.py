"""The Job controller and the garbage collector: Jobs get their pods, lost pods are replaced, owned objects go.

The rules are those of Kubernetes 1.37. An Indexed Job makes one pod for each index that has no running or pending pod
(pkg/controller/job/indexed_job_utils.go). It replaces a terminating pod at once, which is the default
`podReplacementPolicy`. Dependents are deleted after their owner (background deletion). Admission is the product's own
`as_admitted` for the Job, and the gate and the label that the webhook gives to each pod.
"""

from collections.abc import Iterator
from contextlib import suppress

from local_api.resources import GANGS, PODS, RESOURCES
from local_api.server import LocalApi
from local_api.store import Event, Object, RefusedError

from gangs.dialects.templates import as_admitted
from gangs.sources import Sources
from simulation.choices import Choices
from simulation.engine import Engine
from simulation.objects import GATE, is_finished, is_terminating

JOBS = next(each for each in RESOURCES if each.plural == "jobs")
JOBS_PATH = "/apis/batch/v1/namespaces/default/jobs"
SYNC_SECONDS = (0.01, 0.2, 2.0)
"""How long the Job controller takes to see a change and act on it."""
COLLECT_SECONDS = 0.5
"""How long the garbage collector takes."""
_INDEX = "batch.kubernetes.io/job-completion-index"


def job(name: str, pods: int, *, cpu: int = 4, priority: str = "", **annotations: str) -> Object:
    """An Indexed Job whose annotations make it a gang in one rack, as admission lets it in."""
    said = {"phalanx.dev/gang": "true", "phalanx.dev/required": "rack", **annotations}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": str(cpu)}}}
    named = {"priorityClassName": priority} if priority else {}
    template = {"metadata": {}, "spec": {"containers": [container], "restartPolicy": "Never", **named}}
    spec = {
        "parallelism": pods,
        "completions": pods,
        "completionMode": "Indexed",
        "backoffLimit": 100,
        "template": template,
    }
    metadata = {"name": name, "namespace": "default", "annotations": said}
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    return dict(as_admitted(manifest, Sources()))


class JobController:
    """Acts on what the store holds, some time after each change."""

    def __init__(self, api: LocalApi, engine: Engine, choices: Choices) -> None:
        self.api, self.engine, self.choices = api, engine, choices
        self.weights = (1, 0, 0)
        self._due: set[str] = set()

    def see(self, event: Event) -> None:
        """Look at the Job that a change concerns."""
        meta = event.object["metadata"]
        if event.resource == JOBS:
            if event.kind == "DELETED":
                self.engine.after(COLLECT_SECONDS, lambda: self._collect(meta["uid"]))
            self._wake(meta["name"])
        elif event.resource == PODS:
            for owner in _owners(event.object):
                self._wake(owner["name"])

    def _wake(self, name: str) -> None:
        if name not in self._due:
            self._due.add(name)
            seconds = self.choices.one_of("jobs/sync", SYNC_SECONDS, self.weights)
            self.engine.after(seconds, lambda: self._sync(name))

    def _sync(self, name: str) -> None:
        self._due.discard(name)
        found = self.api.store.objects.get((JOBS, "default", name))
        if found is None or found["spec"].get("suspend"):
            return
        have = {
            pod["metadata"]["labels"].get(_INDEX)
            for pod in self._pods(found["metadata"]["uid"])
            if not is_terminating(pod) and not is_finished(pod)
        }
        for index in map(str, range(found["spec"]["parallelism"])):
            if index not in have:
                self._make(found, index)

    def _make(self, found: Object, index: str) -> None:
        meta, template = found["metadata"], found["spec"]["template"]
        labels = {
            **template["metadata"].get("labels", {}),
            "batch.kubernetes.io/job-name": meta["name"],
            _INDEX: index,
            "phalanx.dev/dialect": "phalanx",
        }
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
        metadata = {
            "generateName": f"{meta['name']}-{index}-",
            "namespace": "default",
            "labels": labels,
            "annotations": {_INDEX: index},
            "ownerReferences": [owner],
        }
        spec = {**template["spec"], "schedulingGates": [{"name": GATE}]}
        with suppress(RefusedError):
            self.api.ask("POST", "/api/v1/namespaces/default/pods", {"metadata": metadata, "spec": spec})

    def _pods(self, uid: str) -> Iterator[Object]:
        for (resource, _, _), pod in list(self.api.store.objects.items()):
            if resource == PODS and any(owner["uid"] == uid for owner in _owners(pod)):
                yield pod

    def _collect(self, uid: str) -> None:
        """Delete the dependents of an object that is gone."""
        for pod in self._pods(uid):
            with suppress(RefusedError):
                self.api.ask("DELETE", f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}")
        for (resource, _, name), gang in list(self.api.store.objects.items()):
            if resource == GANGS and any(owner["uid"] == uid for owner in _owners(gang)):
                with suppress(RefusedError):
                    self.api.ask("DELETE", f"/apis/phalanx.dev/v1alpha1/namespaces/default/gangs/{name}")


def _owners(thing: Object) -> list[Object]:
    return [each for each in thing["metadata"].get("ownerReferences") or () if each["kind"] == "Job"]
