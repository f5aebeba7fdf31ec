"""A controller that leads, on the local API server, and a test that plays the scheduler and the kubelets.

r1: n1, n2      r2: n3      each node holds one pod of 4 cpu
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from inline_executors import InlineExecutor, inline
from local_api.direct import DirectTransport
from local_api.server import LocalApi, local_api
from local_api.store import Object, RefusedError
from node_manifests import node_manifest

from cluster.caches.cache import ClusterCache
from controller.acting.probe import PROBE
from controller.leadership.certificates import Keeping
from controller.leadership.election import Term
from controller.scheduling.planning_queue import PlanningQueue
from controller.scheduling.restart_checks import RestartChecks
from controller.serving import Planners, Settings, controller_of
from controller.telemetry.metrics import Metrics
from controller.telemetry.recorder import Recorder
from controller.writes.writer import Writer
from gangs.dialects.protection import protection
from gangs.dialects.table import all_kinds
from kube.keys import GATE
from solver.problem import Limits

RACK = "example.com/rack"
PODS = "/api/v1/namespaces/default/pods"
SYSTEM_PODS = "/api/v1/namespaces/phalanx-system/pods"
GANGS = "/apis/phalanx.dev/v1alpha1/namespaces/default/gangs"
GROUPS = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/podgroups"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
TOPOLOGIES = "/apis/phalanx.dev/v1alpha1/topologies"
SETTLED = Settings(
    kubeconfig=None, identity="test", solve_seconds=30.0, lease_seconds=4.0, partly_seconds=0.2, keeping=Keeping(None)
)
_MERGE = "application/merge-patch+json"
_NOW = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}


def member(name: str, of: str = "llm", *, cpu: int = 4, gated: bool = True, **spec: Any) -> Object:
    """Return a member of a gang, as the webhook admits it."""
    gates = {"schedulingGates": [{"name": GATE}]} if gated else {}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": str(cpu)}}}
    labels = {"phalanx.dev/gang": of, "phalanx.dev/dialect": "phalanx"} if of else {"app": name}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"containers": [container], **gates, **spec},
    }


def gang(name: str = "llm", **spec: Any) -> Object:
    """Two members in one rack."""
    return {"metadata": {"name": name}, "spec": {"minMember": 2, "required": "rack", "topology": "dc", **spec}}


class Scene:
    """The writes that a test makes to the cluster, and the reads of its state."""

    def __init__(self, api: LocalApi) -> None:
        self.api = api

    def furnish(self) -> None:
        """Namespaces, nodes, a topology of racks, priority classes."""
        self.api.create("/api/v1/namespaces", *({"metadata": {"name": each}} for each in ("default", "phalanx-system")))
        racks = {"n1": "r1", "n2": "r1", "n3": "r2"}
        self.api.create("/api/v1/nodes", *(node_manifest(name, {RACK: rack}, 4) for name, rack in racks.items()))
        levels = [{"name": "rack", "nodeLabel": RACK}]
        self.api.create(TOPOLOGIES, {"metadata": {"name": "dc"}, "spec": {"levels": levels}})
        values = {"phalanx-probe": -1, "low": 1, "high": 1000}
        classes = ({"metadata": {"name": name}, "value": value} for name, value in values.items())
        self.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", *classes)

    def run(self, name: str, node: str, *, of: str = "", cpu: int = 4, **spec: Any) -> None:
        """A pod that is ready on its node."""
        self.api.ask("POST", PODS, member(name, of, cpu=cpu, gated=False, nodeName=node, **spec))
        self.ready(name)

    def ready(self, name: str) -> None:
        """Report the pod as ready, as its kubelet does."""
        ready = {"type": "Ready", "status": "True"}
        self.api.ask("PATCH", f"{PODS}/{name}/status", {"status": {"phase": "Running", "conditions": [ready]}}, _MERGE)

    def gone(self, name: str) -> None:
        """A pod has ended."""
        self.api.ask("DELETE", f"{PODS}/{name}", _NOW)

    def pod(self, name: str) -> Object:
        """Return the pod; empty if it does not exist."""
        with suppress(RefusedError):
            return self.api.ask("GET", f"{PODS}/{name}")
        return {}

    def probes(self) -> list[Object]:
        """The probes that are there."""
        items = self.api.ask("GET", SYSTEM_PODS)["items"]
        return [each for each in items if PROBE in each["metadata"].get("labels", {})]

    def status(self, name: str = "llm") -> Object:
        """Return the status of the Gang object; empty if it has none or does not exist."""
        with suppress(RefusedError):
            return self.api.ask("GET", f"{GANGS}/{name}").get("status") or {}
        return {}

    def nominated(self, *names: str) -> list[str]:
        """Return the nominated nodes of the pods, "" for a pod without one."""
        return [self.pod(each).get("status", {}).get("nominatedNodeName", "") for each in names]

    def gated(self, name: str) -> bool:
        """Return whether the pod has the gate."""
        return bool(self.pod(name).get("spec", {}).get("schedulingGates"))

    def released(self, name: str) -> bool:
        """Return whether the pod is without the gate."""
        return not self.gated(name)

    def nodes(self, *names: str) -> list[str]:
        """Where they run."""
        return [self.pod(each).get("spec", {}).get("nodeName", "") for each in names]

    def says(self, name: str) -> str:
        """The message of the pod's PodScheduled condition."""
        conditions = self.pod(name).get("status", {}).get("conditions", ())
        return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")

    def events(self) -> list[str]:
        """The reasons of all events."""
        return [each["reason"] for each in self.api.ask("GET", "/apis/events.k8s.io/v1/events")["items"]]

    def await_phase(self, phase: str, name: str = "llm") -> Object:
        """Wait until the gang has this phase; return its status."""
        self.api.wait(lambda: self.status(name).get("phase") == phase, f"{name} to be {phase}")
        return self.status(name)

    def await_mirror(self, name: str) -> None:
        """Wait until there is a Gang object of that name."""

        def there() -> bool:
            return any(each["metadata"]["name"] == name for each in self.api.ask("GET", GANGS)["items"])

        self.api.wait(there, f"Gang {name}")

    def await_probe(self) -> str:
        """Wait for a probe that the scheduler has not tried yet; return its name."""
        self.api.wait(lambda: any("conditions" not in each["status"] for each in self.probes()), "a probe")
        return str(self.probes()[-1]["metadata"]["name"])

    def answer(self, probe: str) -> None:
        """The scheduler has tried a probe."""
        tried = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "nowhere"}
        path = f"{SYSTEM_PODS}/{probe}/status"
        with suppress(RefusedError):
            self.api.ask("PATCH", path, {"status": {"conditions": [tried]}}, "application/strategic-merge-patch+json")

    def answer_probes(self) -> None:
        """The scheduler has tried all probes."""
        for probe in self.probes():
            if "conditions" not in probe["status"]:
                self.answer(probe["metadata"]["name"])

    def bind(self, *names: str) -> None:
        """The scheduler binds pods to where they are nominated."""
        for name in names:
            self.api.wait(partial(self.released, name), f"{name} to be released")
            target = {"target": {"name": self.nominated(name)[0]}}
            self.api.ask("POST", f"{PODS}/{name}/binding", target)
            self.ready(name)

    def finish(self, *names: str) -> None:
        """Be the scheduler until these run."""

        def done() -> bool:
            self.answer_probes()
            for name in names:
                if self.nominated(name) != [""] and not self.gated(name) and self.nodes(name) == [""]:
                    self.bind(name)
            return all(self.nodes(*names))

        self.api.wait(done, f"{', '.join(names)} to run")


class Leader:
    """One controller that leads until the test stops it, or until it dies."""

    def __init__(self, api: LocalApi, settings: Settings = SETTLED) -> None:
        transport = DirectTransport(api)
        self._term = Term(3600.0, 0.0, lambda: 0.0)
        self._cache = ClusterCache(transport, all_kinds(), protecting=protection)
        self.recorder = Recorder(transport, instance="test")
        self.writer, self.metrics = Writer(transport.within(self._term.allowance)), Metrics()
        limits = Limits(seconds=settings.solve_seconds)
        planners = Planners(
            PlanningQueue(limits, self.metrics, inline(), self._cache.wake),
            RestartChecks(InlineExecutor(), limits, self._cache.wake),
        )
        controller = controller_of(
            self._cache, self.writer, planners, self.recorder, metrics=self.metrics, settings=settings
        )
        self._thread = threading.Thread(target=controller.lead, args=(self._term.lost,), name="leader")
        self._cache.start()
        assert self._cache.wait_synced(60.0), self._cache.unsynced()
        self._thread.start()
        self._api = api

    def die(self) -> None:
        """Write nothing any more, from this very moment."""
        self._term.end()

    @property
    def over(self) -> bool:
        """Whether it may write nothing any more."""
        return self._term.left() <= 0

    def close(self) -> None:
        """End it and wait for that."""
        self._term.end()
        self._cache.wake()
        self._thread.join()
        self.writer.close()
        self.recorder.close()
        self._cache.stop()


@contextmanager
def furnished() -> Iterator[Scene]:
    """The cluster without a controller."""
    with local_api() as api:
        scene = Scene(api)
        scene.furnish()
        yield scene


@contextmanager
def leading(scene: Scene, settings: Settings = SETTLED) -> Iterator[Leader]:
    """A controller leads meanwhile."""
    leader = Leader(scene.api, settings)
    try:
        yield leader
    finally:
        leader.close()


def place(scene: Scene, names: Sequence[str] = ("a", "b"), **spec: Any) -> None:
    """Create a gang and its members."""
    scene.api.create(GANGS, gang())
    scene.api.create(PODS, *(member(name, **spec) for name in names))
