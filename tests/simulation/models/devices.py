"""Devices: the scheduler's allocator, and the controller of ResourceClaims.

The rules are those of Kubernetes 1.37. The plugin DynamicResources (pkg/scheduler/framework/plugins/dynamicresources)
allocates in memory when it chooses the node. It writes the claims in the binding cycle, each some time later. It counts
a device as taken or free, not how often (`allocateddevices.go`). Of a device that claims share, it adds up what they
consume. It tries a pod only when its watch of claims has shown the pod's claims (`PreEnqueue`). A pod that fits nowhere
loses an allocation that keeps it from a node (`PostFilter`).

The claim controller (pkg/controller/resourceclaim) creates claims from templates, and frees those of ended pods.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Protocol

from local_api.resources import CLAIMS, FOR_DEVICES, PODS, RESOURCES, RULES
from local_api.server import LocalApi
from local_api.store import Event, Object, RefusedError, Store

from simulation.choices import Choices
from simulation.engine import Action, Engine
from simulation.models.workloads import SYNC_SECONDS
from simulation.objects import is_finished, is_selected, is_terminating, name_of, node_of

DRIVER = "gpu.example.com"
RESOURCE = "/apis/resource.k8s.io/v1"
CLASS, TEMPLATE = "gpu", "one"
"""The DeviceClass of all devices, and the template of claims of one device."""
FINALIZER = "resource.kubernetes.io/delete-protection"
_DEVICE_CLASSES = next(each for each in RESOURCES if each.plural == "deviceclasses")
_SLICES = next(each for each in (*RESOURCES, *FOR_DEVICES) if each.plural == "resourceslices")
_ENTRY = "resource.kubernetes.io/pod-claim-name"
"""The annotation of a generated claim: the pod's entry that it is generated for."""
_MERGE = "application/merge-patch+json"
CAPACITY, SHARE = 8, 3
"""The memory of a device that claims share, and what each claim consumes of it: two claims fit."""
Device = tuple[str, str]
"""Pool and name of a device. All devices have one driver."""
Chosen = Mapping[str, tuple[tuple[str, Device], ...]]
"""By claim, as `namespace/name`: the devices, each with the name of its request. Empty if the claim has its devices."""


class Creates(Protocol):
    """An API server, simulated or real."""

    def create(self, path: str, *objects: Object) -> None: ...  # noqa: D102 - the class says what it is


def furnish(api: Creates, nodes: Iterable[str], devices: int, *, shared: bool = False) -> None:
    """Create a DeviceClass, a template of claims of one device, and a slice of so many devices for each node.

    `shared`: whether claims share the devices (`CAPACITY`, `SHARE`).
    """
    selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    api.create(f"{RESOURCE}/deviceclasses", {"metadata": {"name": CLASS}, "spec": {"selectors": [selector]}})
    asked: Object = {"capacity": {"requests": {"memory": str(SHARE)}}} if shared else {}
    request = {"name": "gpu", "exactly": {"deviceClassName": CLASS, "count": 1, **asked}}
    more: Object = (
        {"allowMultipleAllocations": True, "capacity": {"memory": {"value": str(CAPACITY)}}} if shared else {}
    )
    template = {"metadata": {"name": TEMPLATE}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    api.create(f"{RESOURCE}/namespaces/default/resourceclaimtemplates", template)
    for node in nodes:
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        each_device = [{"name": f"gpu-{number}", **more} for number in range(devices)]
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": each_device}
        api.create(f"{RESOURCE}/resourceslices", {"metadata": {"name": f"{node}-{DRIVER}"}, "spec": spec})


def claim_path(key: str, part: str = "") -> str:
    """Return the path of the claim `namespace/name`, or of its subresource."""
    namespace, _, name = key.partition("/")
    return f"{RESOURCE}/namespaces/{namespace}/resourceclaims/{name}{f'/{part}' if part else ''}"


def claim_names(pod: Object) -> list[str] | None:
    """Return the pod's claims as `namespace/name`, in order; None if one is not created yet."""
    statuses = pod["status"].get("resourceClaimStatuses") or ()
    made = {each["name"]: each.get("resourceClaimName") for each in statuses}
    names = [each.get("resourceClaimName") or made.get(each["name"]) for each in entries(pod)]
    return None if None in names else [f"{pod['metadata']['namespace']}/{name}" for name in names]


def entries(pod: Object) -> list[Object]:
    """Return the entries of the pod's `spec.resourceClaims`."""
    return list(pod["spec"].get("resourceClaims") or ())


def allocation_of(claim: Object) -> Object:
    """Return the allocation of the claim; empty if it has none."""
    return (claim.get("status") or {}).get("allocation") or {}


def devices_of(claim: Object) -> list[Device]:
    """Return the devices that the claim has, or of which it has a share."""
    return [(each["pool"], each["device"]) for each in _results(claim)]


def whole_devices_of(claim: Object) -> list[Device]:
    """Return the devices that the claim has for itself."""
    return [(each["pool"], each["device"]) for each in _results(claim) if not each.get("shareID")]


def shares_of(claim: Object) -> Counter[Device]:
    """Return by shared device the memory that the claim consumes."""
    shares = [each for each in _results(claim) if each.get("shareID")]
    return Counter({(each["pool"], each["device"]): int(each["consumedCapacity"]["memory"]) for each in shares})


def _results(claim: Object) -> list[Object]:
    return list((allocation_of(claim).get("devices") or {}).get("results") or ())


def consumers_of(claim: Object) -> list[Object]:
    """Return the entries of the claim's `status.reservedFor`."""
    return list((claim.get("status") or {}).get("reservedFor") or ())


def find_claim(store: Store, key: str) -> Object | None:
    """Return the claim `namespace/name` as it is now; None if it does not exist."""
    namespace, _, name = key.partition("/")
    return store.objects.get((CLAIMS, namespace, name))


class Allocator:
    """The state and the decisions of the plugin DynamicResources."""

    def __init__(self, api: LocalApi) -> None:
        self._api = api
        self._claims: dict[str, Object] = {}
        """By `namespace/name`: the claims, as watches have shown them or as the scheduler itself has written them."""
        self._rules: dict[str, Object] = {}
        self._taken: set[Device] = set()
        """The devices that count as taken by one claim."""
        self._consumed: Counter[Device] = Counter()
        """The memory of shared devices that counts as consumed."""
        self._pending: dict[str, tuple[Device, ...]] = {}
        """By claim: the devices that are allocated in memory and not written yet."""

    def read_all(self) -> None:
        """Read all claims and rules."""
        for (resource, _, _), thing in self._api.store.objects.items():
            if resource in (CLAIMS, RULES):
                self.take(Event(0, "ADDED", resource, thing))

    def take(self, event: Event) -> None:
        """Take an event of a watch of claims or rules."""
        if event.resource == RULES:
            self._rules.pop(event.object["metadata"]["name"], None)
            if event.kind != "DELETED":
                self._rules[event.object["metadata"]["name"]] = event.object
            return
        known = self._claims.get(name_of(event.object))
        if known is not None and _version(known) > _version(event.object):
            return  # the scheduler has written a newer version itself
        self._see(event.object, exists=event.kind != "DELETED")

    def _see(self, claim: Object, *, exists: bool) -> None:
        before = self._claims.pop(name_of(claim), None)
        if before is not None:
            self._taken.difference_update(whole_devices_of(before))
            self._consumed.subtract(shares_of(before))
        if exists:
            self._claims[name_of(claim)] = claim
            self._taken.update(whole_devices_of(claim))
            self._consumed.update(shares_of(claim))

    def is_ready(self, pod: Object) -> bool:
        """Return whether the pod's claims exist, as far as the watch has shown."""
        names = claim_names(pod)
        return names is not None and all(name in self._claims for name in names)

    def choose(self, pod: Object, node: Object) -> Chosen | None:
        """Return free devices of the node for the pod's claims; None if there are too few."""
        chosen: dict[str, tuple[tuple[str, Device], ...]] = {}
        used = Counter[Device]()
        for device in (each for devices in self._pending.values() for each in devices):
            used[device] += 1
        for name in claim_names(pod) or ():
            if not self._is_held_for(self._claims[name], node):
                return None
            if allocation_of(self._claims[name]):
                chosen[name] = ()
                continue
            devices = self._free(self._claims[name], node, used)
            if devices is None:
                return None
            chosen[name] = devices
            used.update(device for _, device in devices)
        return chosen

    def _is_held_for(self, claim: Object, node: Object) -> bool:
        """Return whether the claim has no devices yet, or has them on this node."""
        selector = allocation_of(claim).get("nodeSelector")
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}
        return selector is None or is_selected({"spec": {"affinity": affinity}}, node)

    def _is_free(self, device: Device, used: int) -> bool:
        """Return whether the device has room for one more claim. `used`: by how many claims in memory."""
        if device in self._taken:
            return False
        if not self._is_shared(device):
            return not used
        return self._consumed[device] + (used + 1) * SHARE <= CAPACITY

    def _is_shared(self, device: Device) -> bool:
        there = self._api.store.objects[_SLICES, "", f"{device[0]}-{DRIVER}"]["spec"]["devices"]
        return any(each["name"] == device[1] and each.get("allowMultipleAllocations") for each in there)

    def _free(self, claim: Object, node: Object, used: Counter[Device]) -> tuple[tuple[str, Device], ...] | None:
        """Return free devices for the claim. `used`: by how many claims in memory each device is used."""
        found: list[tuple[str, Device]] = []
        for request in claim["spec"]["devices"]["requests"]:
            wanted = request["exactly"]
            if wanted.get("selectors"):
                raise NotImplementedError(str(wanted))
            free = [each for each in self._of(node, wanted) if self._is_free(each, used[each])]
            free = [each for each in free if each not in {device for _, device in found}]
            if len(free) < wanted.get("count", 1):
                return None
            found += [(request["name"], each) for each in free[: wanted.get("count", 1)]]
        return tuple(found)

    def _of(self, node: Object, wanted: Object) -> Iterator[Device]:
        """Yield the devices of a request's class on a node, without those that have a taint it does not tolerate."""
        tolerations = wanted.get("tolerations") or ()
        if (_DEVICE_CLASSES, "", wanted["deviceClassName"]) not in self._api.store.objects:
            return
        for (resource, _, _), thing in sorted(self._api.store.objects.items(), key=lambda each: each[0][2]):
            if resource.plural != "resourceslices" or thing["spec"].get("nodeName") != node["metadata"]["name"]:
                continue
            for each in thing["spec"]["devices"]:
                device = thing["spec"]["pool"]["name"], each["name"]
                taints = (rule["spec"]["taint"] for rule in self._rules.values() if _taints(rule, device))
                if all(any(_tolerates(each, taint) for each in tolerations) for taint in taints):
                    yield device

    def reserve(self, chosen: Chosen) -> None:
        """Mark the devices as allocated in memory."""
        self._pending.update({name: tuple(each for _, each in devices) for name, devices in chosen.items() if devices})

    def unreserve(self, pod: Object) -> None:
        """Forget what is allocated in memory for the pod, and release its claims from it."""
        uid = pod["metadata"]["uid"]
        for name in claim_names(pod) or ():
            self._pending.pop(name, None)
            claim = self._claims.get(name)
            if claim is not None and any(each["uid"] == uid for each in consumers_of(claim)):
                kept = [each for each in consumers_of(claim) if each["uid"] != uid]
                with suppress(RefusedError):
                    self._api.ask(
                        "PATCH", claim_path(name, "status"), {"status": {"reservedFor": kept or None}}, _MERGE
                    )

    def unwritten(self, pod: Object, chosen: Chosen) -> list[str]:
        """Return the claims that must be written before the pod is bound."""
        uid = pod["metadata"]["uid"]
        reserved = {name: {each["uid"] for each in consumers_of(self._claims[name])} for name in chosen}
        return [name for name, devices in chosen.items() if devices or uid not in reserved[name]]

    def write(self, pod: Object, node: str, name: str, devices: tuple[tuple[str, Device], ...]) -> bool:
        """Write the devices allocated in memory to the claim, and reserve it for the pod. Return whether it could."""
        claim = find_claim(self._api.store, name)
        if claim is None or (devices and allocation_of(claim)):
            return False
        meta = pod["metadata"]
        consumer = {"resource": "pods", "name": meta["name"], "uid": meta["uid"]}
        status: Object = {"reservedFor": [*consumers_of(claim), consumer]}
        if devices:
            results = [
                {"request": request, "driver": DRIVER, "pool": pool, "device": each, **self._share(name, (pool, each))}
                for request, (pool, each) in devices
            ]
            field = {"key": "metadata.name", "operator": "In", "values": [node]}
            selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
            status["allocation"] = {"devices": {"results": results}, "nodeSelector": selector}
        try:
            if devices:
                self._api.ask("PATCH", claim_path(name), {"metadata": {"finalizers": [FINALIZER]}}, _MERGE)
            written = self._api.ask("PATCH", claim_path(name, "status"), {"status": status}, _MERGE)
        except RefusedError:
            return False
        self._pending.pop(name, None)
        self._see(written, exists=True)
        return True

    def _share(self, claim: str, device: Device) -> Object:
        """Return the fields of a claim's share of a device; empty if the device is not shared."""
        if not self._is_shared(device):
            return {}
        return {"shareID": f"{claim}/{device[1]}", "consumedCapacity": {"memory": str(SHARE)}}

    def deallocate(self, pod: Object, nodes: Iterable[Object]) -> None:
        """Take the devices from a claim of the pod that keeps the pod from one of these nodes, if no other pod uses it.

        `nodes`: the nodes that would take the pod if it had no claims.
        """
        uid = pod["metadata"]["uid"]
        for name in claim_names(pod) or ():
            claim = self._claims[name]
            others = any(each["uid"] != uid for each in consumers_of(claim))
            if not others and any(not self._is_held_for(claim, node) for node in nodes):
                with suppress(RefusedError):
                    freed = {
                        "metadata": {"uid": claim["metadata"]["uid"]},
                        "status": {"allocation": None, "reservedFor": None},
                    }
                    self._api.ask("PATCH", claim_path(name, "status"), freed, _MERGE)
                return


def _version(thing: Object) -> int:
    return int(thing["metadata"]["resourceVersion"])


def _taints(rule: Object, device: Device) -> bool:
    selector = rule["spec"]["deviceSelector"]
    return selector.get("pool") == device[0] and selector.get("device") in (None, device[1])


def _tolerates(toleration: Object, taint: Object) -> bool:
    same_value = toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")
    return toleration.get("key") in (None, taint["key"]) and same_value


class ClaimController:
    """Creates the claims of templates, and frees the claims of pods that have ended."""

    def __init__(self, api: LocalApi, engine: Engine, choices: Choices) -> None:
        self.api, self.engine, self.choices = api, engine, choices
        self.weights = (1, 0, 0)
        """Weights of `SYNC_SECONDS`."""

    def see(self, event: Event) -> None:
        """Reconcile the claims that a change of a pod concerns, later."""
        if event.resource == PODS and entries(event.object):
            pod = event.object
            if event.kind == "DELETED" or _is_done(pod):
                self._later(lambda: self._free(pod))
            elif claim_names(pod) is None:
                self._later(lambda: self._generate(pod))

    def _later(self, action: Action) -> None:
        self.engine.after(self.choices.one_of("claims/sync", SYNC_SECONDS, self.weights), action)

    def _generate(self, seen: Object) -> None:
        meta = seen["metadata"]
        pod = self.api.store.objects.get((PODS, meta["namespace"], meta["name"]))
        if pod is None or pod["metadata"]["uid"] != meta["uid"] or _is_done(pod) or claim_names(pod) is not None:
            return
        statuses = list(pod["status"].get("resourceClaimStatuses") or ())
        for entry in entries(pod):
            if "resourceClaimName" in entry or any(each["name"] == entry["name"] for each in statuses):
                continue
            root = f"{RESOURCE}/namespaces/{meta['namespace']}"
            template = self.api.ask("GET", f"{root}/resourceclaimtemplates/{entry['resourceClaimTemplateName']}")
            owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}
            metadata = {
                "generateName": f"{meta['name']}-{entry['name']}-",
                "annotations": {_ENTRY: entry["name"]},
                "ownerReferences": [owner],
            }
            claim = {"metadata": metadata, "spec": template["spec"]["spec"]}
            made = self.api.ask("POST", f"{root}/resourceclaims", claim)
            statuses.append({"name": entry["name"], "resourceClaimName": made["metadata"]["name"]})
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/status"
        with suppress(RefusedError):
            self.api.ask("PATCH", path, {"status": {"resourceClaimStatuses": statuses}}, _MERGE)

    def _free(self, pod: Object) -> None:
        """Take the pod from the claims that are reserved for it, their devices if no other pod is left, and its own
        claims from the cluster.
        """
        uid = pod["metadata"]["uid"]
        for (resource, _, _), claim in list(self.api.store.objects.items()):
            if resource != CLAIMS:
                continue
            kept = [each for each in consumers_of(claim) if each["uid"] != uid]
            owned = any(each["uid"] == uid for each in claim["metadata"].get("ownerReferences") or ())
            if len(kept) < len(consumers_of(claim)) or (owned and allocation_of(claim) and not kept):
                status: Object = {"reservedFor": kept} if kept else {"reservedFor": None, "allocation": None}
                self.api.ask("PATCH", claim_path(name_of(claim), "status"), {"status": status}, _MERGE)
            if owned and not kept:
                self.api.ask("DELETE", claim_path(name_of(claim)))


def _is_done(pod: Object) -> bool:
    """Return whether the pod needs its claims no more: it has ended, or is deleted before it was bound."""
    return is_finished(pod) or (is_terminating(pod) and not node_of(pod))
