"""A real control plane with devices by hand, and a controller in this process, which a test can end at any write.

    rack r0: n0 n1      rack r1: n2 n3      each node: 64 cpu, 4 devices of the driver gpu.example.com

An audit log records every write to claims, with its author.
"""

import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Self

from cli.installation.installed_objects import component_objects
from cluster.api.connecting import connect
from cluster.caches.cache import ClusterCache
from controller.leadership.certificates import Keeping
from controller.leadership.election import Term
from controller.scheduling.planning_queue import PlanningQueue
from controller.scheduling.restart_checks import RestartChecks
from controller.scheduling.single_slot_executor import Lanes, ThreadExecutor
from controller.serving import Planners, Settings, controller_of
from controller.telemetry.metrics import Metrics
from controller.telemetry.recorder import Recorder
from controller.writes.writer import Writer, Written
from controlplane.control_plane import ControlPlane, Options, wait_until
from controlplane.deployment import Deployment
from controlplane.recording import Recorder as Recorded
from gangs.dialects.protection import protection
from gangs.dialects.table import all_kinds
from kube.keys import GATE, SYSTEM_NAMESPACE
from kube.quantities import exact
from solver.problem import Limits

Object = dict[str, Any]
DRIVER = "gpu.example.com"
RESOURCE = "/apis/resource.k8s.io/v1"
DEFAULT = "/api/v1/namespaces/default"
CLAIMS = f"{RESOURCE}/namespaces/default/resourceclaims"
RULES = f"{RESOURCE}/devicetaintrules"
PODS = f"{DEFAULT}/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
TEMPLATES = f"{RESOURCE}/namespaces/default/resourceclaimtemplates"
GANGS = "/apis/phalanx.dev/v1alpha1/namespaces/default/gangs"
MERGE = "application/merge-patch+json"
NODES = ("n0", "n1", "n2", "n3")
DEVICES = 4
"""The number of devices of each node."""
_ATTEMPTS = 5
PATIENCE = 120.0
"""Seconds. Only a test that fails takes so long."""
AUDIT = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request
  verbs: [create, update, patch, delete]
  resources: [{group: resource.k8s.io}, {group: "", resources: [pods, pods/status, pods/binding]}]
- level: None
"""


@dataclass(frozen=True, slots=True)
class AuditedWrite:
    """One write to the API server, as its audit log has it. `author`: the user agent."""

    author: str
    verb: str
    resource: str
    name: str
    code: int
    message: str


@dataclass
class DeviceScene:
    """The cluster, and what tests do and read there."""

    plane: ControlPlane
    log: Path

    def ask(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """Send a request as the administrator; fail if it is refused."""
        answer = self.plane.request(method, path, body, content_type)
        failed = isinstance(answer, dict) and answer.get("kind") == "Status" and answer.get("status") == "Failure"
        assert not failed, answer
        return answer

    def patch(self, path: str, body: Object) -> Any:
        """Merge-patch an object."""
        return self.ask("PATCH", path, body, MERGE)

    def pods(self, prefix: str = "") -> list[Object]:
        """The pods of the default namespace whose names begin so."""
        items = self.ask("GET", f"{DEFAULT}/pods")["items"]
        return [each for each in items if each["metadata"]["name"].startswith(prefix)]

    def claims(self, prefix: str = "") -> list[Object]:
        """The claims of the default namespace whose names begin so."""
        return [each for each in self.ask("GET", CLAIMS)["items"] if each["metadata"]["name"].startswith(prefix)]

    def rules(self) -> list[Object]:
        """All DeviceTaintRules."""
        found: list[Object] = self.ask("GET", RULES)["items"]
        return found

    def allocate(self, claim: str, name: str, pool: str, device: str) -> None:
        """Allocate a device to a claim and reserve it for a pod, as an outside writer may."""
        uid = self.ask("GET", f"{PODS}/{name}")["metadata"]["uid"]
        results = [{"request": "gpu", "driver": DRIVER, "pool": pool, "device": device}]
        reserved = [{"resource": "pods", "name": name, "uid": uid}]
        status = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
        self.ask("PATCH", f"{CLAIMS}/{claim}/status", {"status": status}, MERGE)

    def events(self) -> set[str]:
        """The reasons of all events."""
        return {each["reason"] for each in self.ask("GET", "/apis/events.k8s.io/v1/events")["items"]}

    def holds(self, gang: str) -> bool:
        """Whether the gang has a plan that is not carried out yet."""
        return self.status(gang).get("phase") not in ("Unplaceable", "Waiting")

    def create_shuffled(self, pods: Sequence[Object], seed: int) -> None:
        """Create these pods in a random order, by several clients."""
        order = list(pods)
        Random(seed).shuffle(order)  # noqa: S311 - a seed is to be replayed
        with ThreadPoolExecutor(8) as executor:
            list(executor.map(partial(self.ask, "POST", PODS), order))

    def yielding(self) -> list[str]:
        """The names of the rules that keep new claims off a device which two claims had."""
        names = (each["metadata"]["name"] for each in self.rules())
        return [name for name in names if name.startswith("phalanx-yielding-")]

    def leftovers(self) -> list[Object]:
        """The probes, and the claims of probes."""
        found = list[Object]()
        for root, plural in (("/api/v1", "pods"), (RESOURCE, "resourceclaims")):
            found += self.ask("GET", f"{root}/namespaces/{SYSTEM_NAMESPACE}/{plural}")["items"]
        return found

    def status(self, name: str = "llm") -> Object:
        """The status of a gang."""
        found: Object = self.plane.request("GET", f"{GANGS}/{name}").get("status") or {}
        return found

    def wait(self, condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
        """Wait until the condition holds."""
        wait_until(lambda: bool(condition()), seconds, what)

    def bound(self, prefix: str) -> dict[str, str]:
        """The node of each bound pod whose name begins so."""
        return {p["metadata"]["name"]: p["spec"]["nodeName"] for p in self.pods(prefix) if p["spec"].get("nodeName")}

    def writes(self, author: str, resource: str, since: int = 0) -> list[AuditedWrite]:
        """The writes of this author to a resource of the audit log, from a line on."""
        found = []
        for line in self.log.read_text().splitlines()[since:]:
            event = json.loads(line)
            of = event.get("objectRef", {})
            answer = event.get("responseStatus", {})
            whole = of.get("resource", "") + (f"/{of['subresource']}" if of.get("subresource") else "")
            agent = event.get("userAgent", "").split("/")[0]
            if agent == author and of.get("resource") == resource:
                code, said = answer.get("code", 0), answer.get("message", "")
                found.append(AuditedWrite(agent, event["verb"], whole, of.get("name", ""), code, said))
        return found

    @contextmanager
    def history(self) -> Iterator["History"]:
        """Record all changes of claims meanwhile."""
        with Recorded(self.plane, CLAIMS) as recorder:
            yield History(recorder)

    def mark(self) -> int:
        """The number of lines in the audit log."""
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0

    def clear(self) -> None:
        """Remove workloads, pods, claims and rules."""
        self.plane.request("DELETE", "/apis/batch/v1/namespaces/default/jobs?propagationPolicy=Background")
        # One request deletes all pods; on a busy machine the API server gives up after a minute.
        for _ in range(_ATTEMPTS):
            with suppress(OSError):
                self.plane.request("DELETE", f"{DEFAULT}/pods?gracePeriodSeconds=0")
                break
        self.plane.request("DELETE", GANGS)
        self.wait(lambda: not self.pods(), "the pods to be gone")
        for each in self.claims():
            path = f"{CLAIMS}/{each['metadata']['name']}"
            if each.get("status"):
                freed = {"status": {"allocation": None, "reservedFor": None}}
                self.plane.request("PATCH", f"{path}/status", freed, MERGE)
            self.plane.request("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)
            self.plane.request("DELETE", path)
        for each in self.rules():
            self.plane.request("DELETE", f"{RULES}/{each['metadata']['name']}")
        self.wait(lambda: not self.claims(), "the claims to be gone")


@dataclass
class History:
    """The changes of claims, in the order of the API server."""

    recorder: Recorded

    @property
    def doubled(self) -> dict[tuple[str, str], list[str]]:
        """The devices that two claims had for themselves at the same time, with the names of the claims."""
        had, holders = dict[str, list[tuple[str, str]]](), defaultdict[tuple[str, str], list[str]](list)
        found = dict[tuple[str, str], list[str]]()
        for event in self.recorder.events:
            for device in had.pop(event.name, ()):
                holders[device].remove(event.name)
            if event.type == "DELETED":
                continue
            had[event.name] = [
                (each["pool"], each["device"]) for each in results_of(event.object) if not _is_share(each)
            ]
            for device in had[event.name]:
                holders[device].append(event.name)
                if len(holders[device]) > 1:
                    found[device] = list(holders[device])
        return found

    @property
    def most_consumed(self) -> dict[tuple[str, str], int]:
        """By shared device, the largest amount of memory that claims consumed at the same time, in bytes."""
        had, consumed = dict[str, Counter[tuple[str, str]]](), Counter[tuple[str, str]]()
        found = dict[tuple[str, str], int]()
        for event in self.recorder.events:
            consumed.subtract(had.pop(event.name, Counter()))
            if event.type == "DELETED":
                continue
            had[event.name] = Counter[tuple[str, str]]()
            for each in filter(_is_share, results_of(event.object)):
                had[event.name][each["pool"], each["device"]] += int(exact(each["consumedCapacity"]["memory"]))
            consumed.update(had[event.name])
            found |= {device: max(found.get(device, 0), consumed[device]) for device in had[event.name]}
        return found

    @property
    def whole(self) -> bool:
        """Whether no change since the start is missing: the watch has not ended."""
        return not self.recorder.ended

    def now(self, prefix: str) -> list[Object]:
        """The claims that have devices now and whose names begin so."""
        found = dict[str, Object]()
        for event in self.recorder.events:
            found.pop(event.name, None)
            if event.type != "DELETED" and event.name.startswith(prefix) and devices_of(event.object):
                found[event.name] = event.object
        return list(found.values())

    def last(self, prefix: str) -> list[Object]:
        """The claims whose pods' names begin so, each as it was when it last had devices."""
        found = {
            event.name: event.object
            for event in self.recorder.events
            if event.name.startswith(prefix) and devices_of(event.object)
        }
        return list(found.values())

    def devices(self, prefix: str) -> dict[str, list[tuple[str, str]]]:
        """The devices that the claims of each pod had last, by the pod's name."""
        return {each["metadata"]["ownerReferences"][0]["name"]: devices_of(each) for each in self.last(prefix)}


def devices_of(claim: Object) -> list[tuple[str, str]]:
    """Return pool and name of each device of a claim, or of each device of which it has a share."""
    return [(each["pool"], each["device"]) for each in results_of(claim)]


def results_of(claim: Object) -> list[Object]:
    """Return the entries of a claim's allocation."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return list((allocation.get("devices") or {}).get("results", ()))


def _is_share(result: Object) -> bool:
    return "shareID" in result


def node(name: str) -> Object:
    room = {"cpu": "64", "memory": "256Gi", "pods": "400"}
    labels = {"kubernetes.io/hostname": name, "rack": f"r{int(name[1:]) // 2}"}
    status = {"capacity": room, "allocatable": room}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def resource_slice(name: str) -> Object:
    devices = [{"name": f"gpu-{i}", "attributes": {"uuid": {"string": f"{name}-{i}"}}} for i in range(DEVICES)]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
    return {"metadata": {"name": f"{name}-{DRIVER}"}, "spec": spec}


def slice_with_shared_devices(name: str, count: int = 1) -> Object:
    """The slice of a node with devices of 8Gi that claims share. A claim consumes whole Gi; without a request 1Gi."""
    found = resource_slice(name)
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
    capacity = {"memory": {"value": "8Gi", "requestPolicy": policy}}
    more = {"allowMultipleAllocations": True, "capacity": capacity}
    found["spec"]["devices"] = [{"name": f"gpu-{number}", **more} for number in range(count)]
    return found


def share_spec(memory: str) -> Object:
    """The spec of a claim of so much memory of a device."""
    exactly = {"deviceClassName": "gpu", "capacity": {"requests": {"memory": memory}}}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def claim_spec(count: int = 1, selector: str = "") -> Object:
    exactly: Object = {"deviceClassName": "gpu", "count": count}
    if selector:
        exactly["selectors"] = [{"cel": {"expression": selector}}]
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def member(name: str, of: str, *, priority: str = "", claim: str = "") -> Object:
    """A gated member of a gang that names a claim; "" for a claim of the template `one`."""
    found = pod(name, claim, priority=priority, schedulingGates=[{"name": GATE}])
    found["metadata"]["labels"] = {"phalanx.dev/gang": of, "phalanx.dev/dialect": "phalanx"}
    return found


def job(name: str, size: int) -> Object:
    """A Job whose pods are gated members of a gang of its name, each with a claim of the template `one`."""
    one = member("", name)
    one["spec"]["restartPolicy"] = "Never"
    template = {"metadata": {"labels": one["metadata"]["labels"]}, "spec": one["spec"]}
    spec = {"parallelism": size, "completions": size, "backoffLimit": 50, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def pod(name: str, claim: str, *, priority: str = "", **spec: Any) -> Object:
    """An ordinary pod that names a claim; "" for a claim of the template `one`."""
    named = {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": "one"}
    resources = {"requests": {"cpu": "10m"}, "claims": [{"name": "gpu"}]}
    container = {"name": "main", "image": "pause", "resources": resources}
    claims = [{"name": "gpu", **named}]
    whole = {"terminationGracePeriodSeconds": 0, "containers": [container], "resourceClaims": claims}
    chosen = {"priorityClassName": priority} if priority else {}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {**whole, **chosen, **spec}}


def gang(name: str, size: int) -> Object:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": metadata, "spec": {"minMember": size}}


@contextmanager
def device_scene(
    folder: Path,
    *,
    more: Mapping[str, Sequence[str]] | None = None,
    nodes: Sequence[str] = NODES,
    slice_of: Callable[[str], Object] = resource_slice,
    spec_of_claims: Object | None = None,
) -> Iterator[DeviceScene]:
    """Start the control plane with nodes, devices, and Phalanx's objects, without a controller.

    :param more: further flags, by component.
    :param slice_of: returns the ResourceSlice of a node.
    :param spec_of_claims: the spec of the claims of the template `one`; None: a device each.
    """
    policy, log = folder / "policy.yaml", folder / "audit.log"
    policy.write_text(AUDIT)
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={log}")
    with ControlPlane(Options(api_server=flags, more=more or {})) as plane:
        Deployment(plane).install()
        plane.apply(component_objects("devices"))
        plane.add_nodes(map(node, nodes))
        scene = DeviceScene(plane, log)
        for name, value in (("high", 1000), ("middle", 100), ("low", 1)):
            priority_class = {"metadata": {"name": name}, "value": value}
            scene.ask("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", priority_class)
        chosen = [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]
        parameters = [{"opaque": {"driver": DRIVER, "parameters": {"apiVersion": "v1", "kind": "Config", "mode": "x"}}}]
        spec = {"selectors": chosen, "config": parameters}
        scene.ask("POST", f"{RESOURCE}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": spec})
        for name in nodes:
            scene.ask("POST", f"{RESOURCE}/resourceslices", slice_of(name))
        scene.ask("POST", TEMPLATES, {"metadata": {"name": "one"}, "spec": {"spec": spec_of_claims or claim_spec()}})
        account = f"{DEFAULT}/serviceaccounts/default"
        scene.wait(lambda: plane.request("GET", account).get("kind") == "ServiceAccount", "a service account")
        scene.wait(lambda: "items" in plane.request("GET", GANGS), "the API server to serve Gangs")
        yield scene


class MortalWriter(Writer):
    """A writer whose term ends before a chosen write. `before`: called with each write before it is sent."""

    before: Callable[[str, str], None] = staticmethod(lambda _method, _path: None)

    def _send(self, method: str, path: str, *arguments: Any, **options: Any) -> Written:
        self.before(method, path)
        return super()._send(method, path, *arguments, **options)


@dataclass
class Leader:
    """A controller of this process that leads until it is closed, or dies."""

    scene: DeviceScene
    before: Callable[["Leader", str, str], None] | None = None
    writes: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        """Fill the caches and lead."""
        transport = connect(str(self.scene.plane.kubeconfig_for(SYSTEM_NAMESPACE, "phalanx-controller")))
        self.term = Term(3600.0, time.monotonic(), time.monotonic)
        self.cache = ClusterCache(transport, all_kinds(), protecting=protection)
        self.recorder = Recorder(transport, instance="test")
        self.writer, metrics = MortalWriter(transport.within(self.term.allowance)), Metrics()
        self.writer.before = self._before
        limits = Limits(seconds=30.0)
        lanes = Lanes(ThreadExecutor("prompt"), ThreadExecutor("patient"))
        self.planners = Planners(
            PlanningQueue(limits, metrics, lanes, self.cache.wake),
            RestartChecks(ThreadExecutor("restarts"), limits, self.cache.wake),
        )
        settings = Settings(None, "test", 30.0, 4.0, 5.0, Keeping(None))
        controller = controller_of(
            self.cache, self.writer, self.planners, self.recorder, metrics=metrics, settings=settings
        )
        self._thread = threading.Thread(target=controller.lead, args=(self.term.lost,), name="leader")
        self.cache.start()
        assert self.cache.wait_synced(60.0), self.cache.unsynced()
        self._thread.start()
        return self

    def _before(self, method: str, path: str) -> None:
        self.writes.append(f"{method} {path}")
        if self.before is not None:
            self.before(self, method, path)

    def die(self) -> None:
        """Write nothing any more, from this moment."""
        self.term.end()

    def __exit__(self, *_: object) -> None:
        """End it and wait for that."""
        self.term.end()
        self.cache.wake()
        self._thread.join()
        self.writer.close()
        self.recorder.close()
        self.planners.close()
        self.cache.stop()
