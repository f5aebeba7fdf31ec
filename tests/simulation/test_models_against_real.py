"""The models of scheduler and kubelets do what the real components do: the same cases, the same outcome.

n1 and n2 give 4 cpu each. A case is a list of pods in the order of their creation. Its outcome says of each pod where
it is bound, what its PodScheduled condition says, and whether it still exists.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from node_manifests import node_manifest
from waiting import wait_for

from controlplane.control_plane import ControlPlane
from simulation.models.kubelets import STUCK
from simulation.objects import GATE
from simulation.world import CLASSES, MERGE, PODS_PATH, World

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

_NOW = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 1}
_STRATEGIC = "application/strategic-merge-patch+json"
_NODES = {"n1": ("r1", 4), "n2": ("r1", 4)}
Outcome = dict[str, tuple[str, str]]
"""By pod: its node, and its PodScheduled condition; a pod that is gone is left out."""


@dataclass(frozen=True)
class Asked:
    """A pod to be created. `nominated`: the node that is written into its status then."""

    name: str
    priority: str = ""
    cpu: int = 4
    nominated: str = ""
    spec: dict[str, Any] = field(default_factory=dict)

    @property
    def manifest(self) -> dict[str, Any]:
        """The pod."""
        container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": str(self.cpu)}}}
        named = {"priorityClassName": self.priority} if self.priority else {}
        spec = {"containers": [container], "automountServiceAccountToken": False, **named, **self.spec}
        metadata = {"name": self.name, "namespace": "default"}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def on(node: str) -> dict[str, Any]:
    """A node affinity to one node by its name, as a release writes it."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


GATED = {"schedulingGates": [{"name": GATE}]}
NEVER = {"nodeSelector": {"phalanx.dev/probe": "never"}}
CASES: dict[str, Sequence[Asked]] = {
    "a pod goes where its affinity says": [Asked("a", spec=on("n2"))],
    "a gated pod waits": [Asked("a", spec=GATED)],
    "a probe is refused": [Asked("probe", "phalanx-probe", 0, spec=NEVER)],
    "a full node takes no more": [Asked("a", spec=on("n1")), Asked("b", spec=on("n1"))],
    "a nomination holds its node against a lower priority": [
        Asked("held", "high", nominated="n1", spec=GATED),
        Asked("low", "low", spec=on("n1")),
    ],
    "a nomination does not hold its node against a higher priority": [
        Asked("held", "low", nominated="n1", spec=GATED),
        Asked("high", "high", spec=on("n1")),
    ],
    "a higher priority evicts a lower one": [
        Asked("low", "low", spec={**on("n1"), "terminationGracePeriodSeconds": 1}),
        Asked("high", "high", spec=on("n1")),
    ],
}


class Simulated:
    """The models."""

    def __init__(self) -> None:
        self.world = World(0, frozenset())
        self.world.furnish(_NODES)

    def ask(self, method: str, path: str, body: Any = None, content_type: str = MERGE) -> None:
        """Send a request as a user."""
        self.world.ask(method, path, body, content_type)

    def until(self, holds: Callable[[], bool]) -> None:
        """Advance the simulated time until `holds` returns True, at most 60 s."""
        assert self.world.run_until(holds, 60.0)

    def settle(self) -> None:
        """Let everything happen that happens by itself."""
        self.world.run(10.0)

    def pods(self) -> list[dict[str, Any]]:
        """The pods that there are."""
        return self.world.pods()


class Real:
    """The real components."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        plane.add_nodes(node_manifest(name, {}, cpu) for name, (_, cpu) in _NODES.items())
        version = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        plane.apply({**version, "metadata": {"name": name}, "value": value} for name, value in CLASSES.items())

    def ask(self, method: str, path: str, body: Any = None, content_type: str = MERGE) -> None:
        """Send a request as a user."""
        self.plane.request(method, path, body, content_type=content_type)

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds."""
        wait_for(holds, "the real components to do what the models did")

    def settle(self) -> None:
        """Wait for a probe of the lowest priority: the scheduler has tried all pods before it."""
        self.ask("POST", PODS_PATH, Asked("last", "phalanx-probe", 0, spec=NEVER).manifest, "application/json")
        self.until(lambda: any(_is_tried(pod) for pod in self.pods() if pod["metadata"]["name"] == "last"))
        self.ask("DELETE", f"{PODS_PATH}/last", {**_NOW, "gracePeriodSeconds": 0}, "application/json")

    def pods(self) -> list[dict[str, Any]]:
        """The pods that there are."""
        return list(self.plane.request("GET", PODS_PATH)["items"])


def _is_tried(pod: dict[str, Any]) -> bool:
    """Whether the scheduler has written the pod's condition PodScheduled."""
    return any(each["type"] == "PodScheduled" for each in pod["status"].get("conditions") or ())


def outcome(pods: Sequence[dict[str, Any]]) -> Outcome:
    """Return for each pod its node ("" if unbound) and the reason of its condition PodScheduled ("" if absent)."""
    found: Outcome = {}
    for pod in pods:
        conditions = pod["status"].get("conditions") or ()
        said = next((each for each in conditions if each["type"] == "PodScheduled"), {})
        found[pod["metadata"]["name"]] = pod["spec"].get("nodeName", ""), said.get("reason", "")
    found.pop("last", None)
    return found


def play(case: Sequence[Asked], there: Simulated | Real) -> None:
    """Create the pods, one after the other."""
    for asked in case:
        there.ask("POST", PODS_PATH, asked.manifest, "application/json")
        if asked.nominated:
            status = {"status": {"nominatedNodeName": asked.nominated}}
            there.ask("PATCH", f"{PODS_PATH}/{asked.name}/status", status, _STRATEGIC)
        there.settle()


@pytest.mark.parametrize("name", CASES)
def test_the_scheduler_of_the_simulation_decides_as_the_real_one(name: str, cluster: ControlPlane) -> None:
    model, real = Simulated(), Real(cluster)
    play(CASES[name], model)
    expected = outcome(model.pods())
    play(CASES[name], real)
    real.until(lambda: outcome(real.pods()) == expected)


def test_a_deleted_pod_ends_but_for_its_finalizer(cluster: ControlPlane) -> None:
    for there in (Simulated(), Real(cluster)):
        play([Asked("a", spec=on("n1")), Asked("b", spec=on("n2"))], there)
        there.until(lambda there=there: all(node for node, _ in outcome(there.pods()).values()))
        there.ask("PATCH", f"{PODS_PATH}/a", {"metadata": {"finalizers": [STUCK]}})
        for name in ("a", "b"):
            there.ask("DELETE", f"{PODS_PATH}/{name}", _NOW, "application/json")
        there.until(lambda there=there: set(outcome(there.pods())) == {"a"})
        there.settle()
        assert set(outcome(there.pods())) == {"a"}
        there.ask("PATCH", f"{PODS_PATH}/a", {"metadata": {"finalizers": None}})
        there.until(lambda there=there: outcome(there.pods()) == {})
