"""The models do what the real components do: scheduler, kubelets, StatefulSet and disruption controllers.

n1 and n2 give 4 cpu each. A case is a list of pods in the order of their creation. Its outcome says of each pod where
it is bound, what its PodScheduled condition says, and whether it still exists.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import pytest
from node_manifests import node_manifest
from waiting import wait_for

from controlplane.control_plane import ControlPlane
from simulation.models import devices
from simulation.models.budgets import BUDGETS_PATH, budget
from simulation.models.kubelets import STUCK
from simulation.models.stateful_sets import ORDERED, PARALLEL, STATEFUL_SETS_PATH, stateful_set
from simulation.objects import GATE, is_ready
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

    def __init__(self, *, devices_of_node: int = 0, shared_devices: bool = False) -> None:
        self.world = World(0, frozenset())
        self.world.stateful_sets.create = self._create  # the control plane has no webhook of ours
        self.world.furnish(_NODES, devices_of_node=devices_of_node, shared_devices=shared_devices)

    def ask(self, method: str, path: str, body: Any = None, content_type: str = MERGE) -> Any:
        """Send a request as a user. Return the answer; None if it is refused."""
        return self.world.ask(method, path, body, content_type)

    def _create(self, pod: dict[str, Any], _refused: Callable[[], None]) -> None:
        self.world.api.ask("POST", PODS_PATH, pod)

    def until(self, holds: Callable[[Self], bool]) -> None:
        """Advance the simulated time until `holds` returns True, at most 60 s."""
        assert self.world.run_until(lambda: holds(self), 60.0)

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

    def ask(self, method: str, path: str, body: Any = None, content_type: str = MERGE) -> Any:
        """Send a request as a user. Return the answer; None if it is refused."""
        answer = self.plane.request(method, path, body, content_type=content_type)
        return None if (answer["kind"], answer.get("status")) == ("Status", "Failure") else answer

    def until(self, holds: Callable[[Self], bool]) -> None:
        """Wait until something holds."""
        wait_for(lambda: holds(self), "the real components to do what the models did")

    def settle(self) -> None:
        """Wait for a probe of the lowest priority: the scheduler has tried all pods before it."""
        self.ask("POST", PODS_PATH, Asked("last", "phalanx-probe", 0, spec=NEVER).manifest, "application/json")
        self.until(lambda _: any(_is_tried(pod) for pod in self.pods() if pod["metadata"]["name"] == "last"))
        self.ask("DELETE", f"{PODS_PATH}/last", {**_NOW, "gracePeriodSeconds": 0}, "application/json")

    def pods(self) -> list[dict[str, Any]]:
        """The pods that there are."""
        return list(self.plane.request("GET", PODS_PATH)["items"])

    def create(self, path: str, *objects: dict[str, Any]) -> None:
        """Create objects in the collection at `path`."""
        for each in objects:
            self.ask("POST", path, each, "application/json")


def _is_tried(pod: dict[str, Any]) -> bool:
    """Whether the scheduler has written the pod's condition PodScheduled."""
    return any(each["type"] == "PodScheduled" for each in pod["status"].get("conditions") or ())


def outcome(pods: Sequence[dict[str, Any]]) -> Outcome:
    """Return for each pod its node ("" if unbound) and the reason of its condition PodScheduled ("" if absent)."""
    found: Outcome = {}
    for pod in pods:
        conditions = pod["status"].get("conditions") or ()
        said: dict[str, Any] = next((each for each in conditions if each["type"] == "PodScheduled"), {})
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
    real.until(lambda there: outcome(there.pods()) == expected)


def test_a_deleted_pod_ends_but_for_its_finalizer(cluster: ControlPlane) -> None:
    for there in (Simulated(), Real(cluster)):
        play([Asked("a", spec=on("n1")), Asked("b", spec=on("n2"))], there)
        there.until(lambda there: all(node for node, _ in outcome(there.pods()).values()))
        there.ask("PATCH", f"{PODS_PATH}/a", {"metadata": {"finalizers": [STUCK]}})
        for name in ("a", "b"):
            there.ask("DELETE", f"{PODS_PATH}/{name}", _NOW, "application/json")
        there.until(lambda there: set(outcome(there.pods())) == {"a"})
        there.settle()
        assert set(outcome(there.pods())) == {"a"}
        there.ask("PATCH", f"{PODS_PATH}/a", {"metadata": {"finalizers": None}})
        there.until(lambda there: outcome(there.pods()) == {})


def ready(there: Simulated | Real) -> set[str]:
    """The pods that are ready, by name."""
    return {pod["metadata"]["name"] for pod in there.pods() if is_ready(pod)}


def names(there: Simulated | Real) -> set[str]:
    """The pods that there are, by name."""
    return {pod["metadata"]["name"] for pod in there.pods()} - {"last"}


def placed_nowhere(policy: str) -> dict[str, Any]:
    """A StatefulSet of two whose pods no node takes."""
    manifest = stateful_set("s", 2, policy=policy, cpu=1)
    manifest["spec"]["template"]["spec"]["nodeSelector"] = {"phalanx.dev/probe": "never"}
    return manifest


@pytest.mark.parametrize(("policy", "first"), [(ORDERED, {"s-0"}), (PARALLEL, {"s-0", "s-1"})])
def test_a_stateful_set_creates_its_pods_in_order_or_at_once(
    policy: str, first: set[str], cluster: ControlPlane
) -> None:
    for there in (Simulated(), Real(cluster)):
        there.ask("POST", STATEFUL_SETS_PATH, placed_nowhere(policy), "application/json")
        there.until(lambda there: names(there) == first)
        there.settle()
        assert names(there) == first


def is_replaced(uid: str, there: Simulated | Real) -> bool:
    """Return whether the pod of this uid is gone, and all three pods are ready."""
    return uid not in {pod["metadata"]["uid"] for pod in there.pods()} and ready(there) == {"s-0", "s-1", "s-2"}


@pytest.mark.parametrize("policy", [ORDERED, PARALLEL])
def test_a_stateful_set_recreates_a_pod_under_its_name_once_it_is_gone(policy: str, cluster: ControlPlane) -> None:
    for there in (Simulated(), Real(cluster)):
        there.ask("POST", STATEFUL_SETS_PATH, stateful_set("s", 3, policy=policy, cpu=1), "application/json")
        there.until(lambda there: ready(there) == {"s-0", "s-1", "s-2"})
        old = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in there.pods()}
        there.ask("PATCH", f"{PODS_PATH}/s-0", {"metadata": {"finalizers": [STUCK]}})
        there.ask("DELETE", f"{PODS_PATH}/s-0", _NOW, "application/json")
        there.settle()
        assert {pod["metadata"]["uid"] for pod in there.pods()} == set(old.values())
        there.ask("PATCH", f"{PODS_PATH}/s-0", {"metadata": {"finalizers": None}})
        there.until(partial(is_replaced, old["s-0"]))
        there.ask("PATCH", f"{STATEFUL_SETS_PATH}/s", {"spec": {"replicas": 4}})
        there.until(lambda there: ready(there) == {"s-0", "s-1", "s-2", "s-3"})
        there.ask("PATCH", f"{STATEFUL_SETS_PATH}/s", {"spec": {"replicas": 1}})
        there.until(lambda there: names(there) == {"s-0"})


_COUNTS = ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")


def counts(there: Simulated | Real) -> list[int] | None:
    """Return the counts of the budget's status; None if it has not been counted yet."""
    status = (there.ask("GET", f"{BUDGETS_PATH}/keep") or {}).get("status") or {}
    return [status[key] for key in _COUNTS] if status.get("observedGeneration") else None


def test_a_budget_is_counted_and_forbids_the_second_of_two_evictions(cluster: ControlPlane) -> None:
    for there in (Simulated(), Real(cluster)):
        for name, node in (("a", "n1"), ("b", "n2")):
            manifest = Asked(name, spec=on(node)).manifest
            manifest["metadata"]["labels"] = {"budget": "keep"}
            there.ask("POST", PODS_PATH, manifest, "application/json")
        there.until(lambda there: ready(there) == {"a", "b"})
        whole = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", **budget("keep", {"budget": "keep"}, 1)}
        there.ask("POST", BUDGETS_PATH, whole, "application/json")
        there.until(lambda there: counts(there) == [2, 2, 1, 1])
        assert evict(there, "a")
        assert not evict(there, "b")
        there.until(lambda there: names(there) == {"b"})
        there.until(lambda there: counts(there) == [1, 1, 1, 0])
        assert not evict(there, "b")
        there.ask("PATCH", f"{BUDGETS_PATH}/keep", {"spec": {"minAvailable": 0}})
        there.until(lambda there: counts(there) == [1, 1, 0, 1])
        assert evict(there, "b")


def evict(there: Simulated | Real, name: str) -> bool:
    """Evict a pod that ends at once. Return whether the API server accepts that."""
    version = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
    body = {**version, "deleteOptions": {"gracePeriodSeconds": 1}}
    return there.ask("POST", f"{PODS_PATH}/{name}/eviction", body, "application/json") is not None


RULE = {
    "metadata": {"name": "pool-n1"},
    "spec": {
        "deviceSelector": {"driver": devices.DRIVER, "pool": "n1"},
        "taint": {"key": "example.com/taken", "value": "yes", "effect": "NoSchedule"},
    },
}


def with_device(name: str, **spec: Any) -> dict[str, Any]:
    """A pod that needs a device of n1."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": devices.TEMPLATE}]
    return Asked(name, cpu=1, spec={**on("n1"), "resourceClaims": claims, **spec}).manifest


def allocations(there: Simulated | Real) -> dict[str, tuple[list[devices.Device], list[str]]]:
    """The devices of each pod's claim, and the pods that it is reserved for, by the name of the pod."""
    return {
        each["metadata"]["ownerReferences"][0]["name"]: (
            devices.devices_of(each),
            [consumer["name"] for consumer in devices.consumers_of(each)],
        )
        for each in claims(there)
    }


def is_refused(name: str, there: Simulated | Real) -> bool:
    """Return whether the scheduler has found no node for the pod."""
    return outcome(there.pods()).get(name) == ("", "Unschedulable")


def is_bound(name: str, there: Simulated | Real) -> bool:
    """Return whether the pod is bound to n1."""
    return outcome(there.pods()).get(name, ("", ""))[0] == "n1"


def test_the_allocator_of_the_simulation_allocates_as_the_real_one(cluster: ControlPlane) -> None:
    """Two devices on n1. The third pod waits, until the first one ends. A rule keeps a pod from a free device."""
    real = Real(cluster)
    devices.furnish(real, _NODES, 2)
    for there in (Simulated(devices_of_node=2), real):
        for name in ("a", "b"):
            there.ask("POST", PODS_PATH, with_device(name), "application/json")
            there.until(partial(is_bound, name))
        there.ask("POST", PODS_PATH, with_device("c"), "application/json")
        there.until(partial(is_refused, "c"))
        first = {"a": ([("n1", "gpu-0")], ["a"]), "b": ([("n1", "gpu-1")], ["b"]), "c": ([], [])}
        assert allocations(there) == first
        there.ask("POST", f"{devices.RESOURCE}/devicetaintrules", RULE, "application/json")
        there.ask("DELETE", f"{PODS_PATH}/a", _NOW, "application/json")
        there.until(lambda there: set(allocations(there)) == {"b", "c"})
        there.settle()
        assert allocations(there)["c"] == ([], [])
        there.ask("DELETE", f"{devices.RESOURCE}/devicetaintrules/pool-n1")
        there.until(partial(is_bound, "c"))
        assert allocations(there)["c"] == ([("n1", "gpu-0")], ["c"])


def test_the_allocator_of_the_simulation_shares_devices_as_the_real_one(cluster: ControlPlane) -> None:
    """Two claims fit on the device of n1. The third pod waits, until a claim beyond the capacity and one more end."""
    real = Real(cluster)
    devices.furnish(real, _NODES, 1, shared=True)
    for there in (Simulated(devices_of_node=1, shared_devices=True), real):
        there.ask("POST", PODS_PATH, with_device("held", **GATED), "application/json")
        there.until(lambda there: "held" in allocations(there))
        pod = there.ask("GET", f"{PODS_PATH}/held")
        share = {"shareID": "7f2b8c1e-0000-4000-8000-000000000000", "consumedCapacity": {"memory": "5"}}
        results = [{"request": "gpu", "driver": devices.DRIVER, "pool": "n1", "device": "gpu-0", **share}]
        consumer = {"resource": "pods", "name": "held", "uid": pod["metadata"]["uid"]}
        status = {"allocation": {"devices": {"results": results}}, "reservedFor": [consumer]}
        (name,) = (each["metadata"]["name"] for each in claims(there))
        there.ask("PATCH", devices.claim_path(f"default/{name}", "status"), {"status": status})
        there.ask("POST", PODS_PATH, with_device("a"), "application/json")
        there.until(partial(is_bound, "a"))
        there.ask("POST", PODS_PATH, with_device("b"), "application/json")
        there.until(partial(is_refused, "b"))
        assert {name: found for name, (found, _) in allocations(there).items()} == {
            "held": [("n1", "gpu-0")],
            "a": [("n1", "gpu-0")],
            "b": [],
        }
        there.ask("DELETE", f"{PODS_PATH}/held", _NOW, "application/json")
        there.until(partial(is_bound, "b"))
        for name in ("a", "b"):
            there.ask("DELETE", f"{PODS_PATH}/{name}", _NOW, "application/json")
        there.until(lambda there: claims(there) == [])


def test_a_claim_that_another_client_has_allocated_is_taken_as_it_is(cluster: ControlPlane) -> None:
    """A gated pod whose claim has the second device. Nothing writes the claim when the pod is bound."""
    real = Real(cluster)
    devices.furnish(real, _NODES, 2)
    for there in (Simulated(devices_of_node=2), real):
        there.ask("POST", PODS_PATH, with_device("held", **GATED), "application/json")
        there.until(lambda there: "held" in allocations(there))
        pod = there.ask("GET", f"{PODS_PATH}/held")
        results = [{"request": "gpu", "driver": devices.DRIVER, "pool": "n1", "device": "gpu-1"}]
        consumer = {"resource": "pods", "name": "held", "uid": pod["metadata"]["uid"]}
        status = {"allocation": {"devices": {"results": results}}, "reservedFor": [consumer]}
        (name,) = (each["metadata"]["name"] for each in claims(there))
        there.ask("PATCH", devices.claim_path(f"default/{name}", "status"), {"status": status})
        (before,) = claims(there)
        there.ask("PATCH", f"{PODS_PATH}/held", {"spec": {"schedulingGates": None}})
        there.until(partial(is_bound, "held"))
        (after,) = claims(there)
        assert devices.devices_of(after) == [("n1", "gpu-1")]
        assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        there.ask("DELETE", f"{PODS_PATH}/held", _NOW, "application/json")
        there.until(lambda there: claims(there) == [])


def claims(there: Simulated | Real) -> list[dict[str, Any]]:
    """The claims that there are."""
    return list(there.ask("GET", devices.claim_path("default/").rstrip("/"))["items"])
