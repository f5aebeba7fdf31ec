"""The claims of a plan as the cluster shows them: which have their planned devices already, and which other claims have
planned devices (docs/decisions/0045). Pure functions.

The state is in the cluster: the allocations of the claims, and the DeviceTaintRules that the controller has created.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple
from uuid import NAMESPACE_OID, uuid5

import msgspec

from cluster.devices.allocation import AllocatedDevice, ClaimAllocation, DeviceId
from cluster.devices.capacity import Amounts, exceeds, total
from cluster.devices.extended_resources import provided_by_classes
from cluster.devices.holdings import DeviceView, amounts_of, consumers, device_id, devices_of_claim
from controller.release.records import PlanRecord
from gangs.model import Gang
from kube.devices import DeviceClaim, DeviceTaintRule, DeviceTaintSelector, ExactDeviceRequest, ResourceClaim
from kube.keys import DEVICE_RULE, DEVICES_TAKEN, GATE, PLAN, TAKING, YIELDING
from kube.objects import Pod
from kube.placeholders import to_come

Pool = tuple[str, str]
"""A driver, and the name of one of its pools."""
_MOST_TOLERATIONS = 16
"""The most tolerations that the API server accepts in a request for devices (`DeviceTolerationsMaxLength`)."""


class _Part(NamedTuple):
    """A device, or a share of one. `amounts`: what the share consumes of each capacity; None for a whole device."""

    device: DeviceId
    amounts: frozenset[tuple[str, Decimal]] | None

    @classmethod
    def of(cls, device: DeviceId, amounts: Amounts | None) -> "_Part":
        """Return the device, or the share that consumes these amounts."""
        return cls(device, None if amounts is None else frozenset(amounts.items()))


@dataclass(frozen=True)
class PlannedClaim:
    """A claim of gated members, with the devices that the plan gives it.

    `allocation`: these devices. `claim`: the ResourceClaim; None if it does not exist yet. `pods`: the members that use
    the claim and that exist.
    """

    allocation: ClaimAllocation
    claim: ResourceClaim | None
    pods: tuple[Pod, ...]

    @cached_property
    def as_planned(self) -> bool:
        """Whether the claim has exactly the planned devices, and consumes the planned amounts of shared ones."""
        if self.claim is None or self.claim.status.allocation is None:
            return False
        results = devices_of_claim(self.claim)
        got = Counter(_Part.of(device_id(each), amounts_of(each) if each.share_id else None) for each in results)
        return got == Counter(
            _Part.of(each.device, each.amounts if each.shared else None) for each in self.allocation.devices
        )

    @property
    def held(self) -> bool:
        """Whether the claim has the planned devices and keeps them until its members are released.

        It is reserved for these members. If the scheduler has allocated it, it is reserved for other pods, which keep
        the devices, and the scheduler reserves it for the members when it binds them.
        """
        if self.claim is None or not self.as_planned:
            return False
        if not is_ours(self.claim):
            return bool(consumers(self.claim))
        return {pod.metadata.uid for pod in self.pods} <= consumers(self.claim)

    @property
    def devices(self) -> tuple[DeviceId, ...]:
        """The planned devices of which the claim takes all or a share, so those for administration are left out."""
        return tuple(dict.fromkeys(each.device for each in self.allocation.devices if not each.admin_access))

    @cached_property
    def shares(self) -> Mapping[DeviceId, Amounts]:
        """By shared device: the amounts of its capacities that the claim is planned to consume."""
        found = defaultdict[DeviceId, list[Amounts]](list)
        for each in self.allocation.devices:
            if each.shared:
                found[each.device].append(each.amounts)
        return {device: total(amounts) for device, amounts in found.items()}

    @property
    def text(self) -> str:
        """The name of the claim, as messages print it."""
        if self.allocation.name:
            return f"ResourceClaim {self.allocation.namespace}/{self.allocation.name}"
        return f"the ResourceClaim {self.allocation.pod_claim} of pod {', '.join(self.allocation.pods)}"


@dataclass(frozen=True)
class DevicePlan:
    """The claims of a plan whose members are still gated, as the cluster shows them now.

    `obsolete`: claims for which the plan has no devices, but to which the controller has allocated devices for gated
    members. `awaited`: the claims of expected pods only, to which nothing can be allocated yet.
    """

    plan_id: str
    claims: tuple[PlannedClaim, ...]
    view: DeviceView
    obsolete: tuple[ResourceClaim, ...] = ()
    awaited: tuple[PlannedClaim, ...] = ()

    @property
    def missing(self) -> tuple[PlannedClaim, ...]:
        """The claims that do not exist yet."""
        return tuple(each for each in self.claims if each.claim is None)

    @property
    def unheld(self) -> tuple[PlannedClaim, ...]:
        """The claims that do not have their devices yet."""
        return tuple(each for each in self.claims if not each.held)

    @property
    def misallocated(self) -> tuple[ResourceClaim, ...]:
        """The claims whose devices must be deallocated: claims with other devices than planned, and obsolete claims."""
        wrong = (
            each.claim
            for each in self.claims
            if each.claim is not None and each.claim.status.allocation is not None and not each.as_planned
        )
        return (*wrong, *self.obsolete)

    @property
    def pools(self) -> tuple[Pool, ...]:
        """The pools of the planned devices, in natural order."""
        return tuple(sorted({(each.driver, each.pool) for claim in self.claims for each in claim.devices}))

    @property
    def rules(self) -> tuple[DeviceTaintRule, ...]:
        """The taint rules of this plan. They keep new claims off the pools of its devices."""
        return tuple(each for each in self.view.rules if is_rule(each, TAKING) and plan_of(each) == self.plan_id)

    @property
    def untainted(self) -> tuple[Pool, ...]:
        """The pools of the plan's devices that no taint rule of this plan taints. Empty if the API server does not
        serve DeviceTaintRules.
        """
        if not self.view.taints:
            return ()
        selectors = (each.spec.device_selector for each in self.rules)
        tainted = {(each.driver, each.pool) for each in selectors if each is not None}
        return tuple(pool for pool in self.pools if pool not in tainted)

    def rivals(
        self, claim: PlannedClaim, stays: Callable[[ResourceClaim], bool] = lambda _: True
    ) -> Iterator[tuple[DeviceId, ResourceClaim]]:
        """Yield each claim outside the plan that keeps `claim` from getting one of its planned devices, with this
        device.

        Such a rival has the device for itself, or has a share of a device that `claim` is to have for itself. If both
        share the device, the rival counts if all shares together exceed the device's capacity. A rival may also have a
        partition of the same physical device, so that a counter is overdrawn.

        :param stays: returns whether a claim keeps its devices. Other claims are ignored.
        """
        return self._rivals(claim, stays, self._planned)

    def _rivals(
        self, claim: PlannedClaim, stays: Callable[[ResourceClaim], bool], consumed: Mapping[DeviceId, Amounts]
    ) -> Iterator[tuple[DeviceId, ResourceClaim]]:
        """Yield each claim outside the plan that keeps `claim` from getting one of its planned devices, with this
        device.

        :param stays: returns whether a claim keeps its devices. Other claims are ignored.
        :param consumed: by shared device, the amounts that claims of the plan consume.
        """
        own, shares = claim.claim.metadata.uid if claim.claim is not None else "", claim.shares
        for device in claim.devices:
            for holder in self.view.holders.get(device, ()):
                if holder.metadata.uid != own and stays(holder):
                    yield device, holder
            capacity = self.view.partitions.shared_capacity.get(device, {}) if device in shares else None
            if capacity is None or exceeds(total((consumed[device], self._others.get(device, {}))), capacity):
                # Only here, because each claim that shares the device is looked at.
                sharers = [each for each in self._sharers.get(device, ()) if stays(each[0])]
                amounts = total((consumed.get(device, {}), *(each for _, each in sharers)))
                if capacity is None or exceeds(amounts, capacity):
                    yield from ((device, sharer) for sharer in {each.key: each for each, _ in sharers}.values())
            yield from ((device, holder) for holder in self._beside(device, stays))

    @cached_property
    def _planned(self) -> Mapping[DeviceId, Amounts]:
        """By shared device: the amounts that the plan consumes."""
        return _consumed((*self.claims, *self.awaited))

    @cached_property
    def _others(self) -> Mapping[DeviceId, Amounts]:
        """By planned device that claims outside the plan share: the amounts that these claims consume."""
        return {device: total(amounts for _, amounts in shares) for device, shares in self._sharers.items()}

    @cached_property
    def _sharers(self) -> Mapping[DeviceId, Sequence[tuple[ResourceClaim, Amounts]]]:
        """By planned device: the claims outside the plan that have a share, with the consumed amounts."""
        own = {claim.claim.metadata.uid for claim in self.claims if claim.claim is not None}
        devices = {device for claim in (*self.claims, *self.awaited) for device in claim.devices}
        return {
            device: [each for each in self.view.sharers[device] if each[0].metadata.uid not in own]
            for device in devices
            if device in self.view.sharers
        }

    def _beside(self, device: DeviceId, stays: Callable[[ResourceClaim], bool]) -> Iterator[ResourceClaim]:
        """Yield the claims outside the plan whose partitions, together with the planned devices, overdraw a counter of
        this planned device.

        :param stays: returns whether a claim keeps its devices. Other claims are ignored.
        """
        partitions = self.view.partitions
        counters = partitions.consumption.get(device, {}).keys()
        if not counters:
            return
        planned = {each for claim in self.claims for each in claim.devices}
        own = {claim.claim.metadata.uid for claim in self.claims if claim.claim is not None}
        others = {
            other: [each for each in holders if each.metadata.uid not in own and stays(each)]
            for other, holders in self.view.users.items()
            if other not in planned and not counters.isdisjoint(partitions.consumption.get(other, {}))
        }
        present = [other for other, holders in others.items() if holders]
        overdrawn = set(partitions.overdrawn((*planned, *present))) & counters
        for other in present:
            if not overdrawn.isdisjoint(partitions.consumption[other]):
                yield from others[other]

    @property
    def doubled(self) -> tuple[DeviceId, ...]:
        """The planned devices that a claim of the plan already has and that collide with a claim outside the plan, in
        order.

        A device collides if a claim outside the plan has it, too; a shared device only if its claims together consume
        more than its capacity. A partition also collides with another partition of the same physical device, if the two
        together overdraw a counter.
        """
        return tuple(sorted({device for _, device, _ in self.doubles}))

    @property
    def doubled_shares(self) -> frozenset[DeviceId]:
        """The devices of `doubled` of which a claim of the plan has only a share."""
        return frozenset(device for claim, device, _ in self.doubles if device in claim.shares)

    @cached_property
    def doubles(self) -> tuple[tuple[PlannedClaim, DeviceId, ResourceClaim], ...]:
        """The devices that are allocated both to a claim of the plan and to a claim outside the plan. An entry is the
        claim of the plan, the device, and the other claim.
        """
        held = [each for each in self.claims if each.as_planned]
        consumed = _consumed(held)
        return tuple(
            (claim, device, rival) for claim in held for device, rival in self._rivals(claim, lambda _: True, consumed)
        )


def _consumed(claims: Iterable[PlannedClaim]) -> Mapping[DeviceId, Amounts]:
    """Return, by shared device, the amounts that these claims together are planned to consume."""
    found = defaultdict[DeviceId, list[Amounts]](list)
    for claim in claims:
        for device, amounts in claim.shares.items():
            found[device].append(amounts)
    return {device: total(amounts) for device, amounts in found.items()}


def device_plan(gang: Gang, record: PlanRecord, view: DeviceView) -> DevicePlan:
    """Return the claims in the plan's record that gated members use, as the cluster shows them now.

    A claim is left out once one of its members has been released, because the scheduler alone changes it from then on.
    """
    by_name = {(each.pod.metadata.namespace, each.pod.metadata.name): each.pod for each in gang.members}
    found, awaited = list[PlannedClaim](), list[PlannedClaim]()
    for allocation in record.claims:
        named = (by_name.get((allocation.namespace, name)) for name in allocation.pods)
        pods = tuple(pod for pod in named if pod is not None and record.node_of(pod.metadata.uid) is not None)
        there = tuple(pod for pod in pods if not to_come(pod))
        if there and all(pod.gated_by(GATE) for pod in pods):
            found.append(PlannedClaim(allocation, _claim_of(allocation, there, view), there))
        elif pods and not there:
            awaited.append(PlannedClaim(allocation, None, ()))
    own = {each.claim.metadata.uid for each in found if each.claim is not None}
    gated = {each.pod.metadata.uid for each in gang.members if each.pod.gated_by(GATE)}
    held = (each for each in view.held_for(gated) if is_ours(each) and consumers(each) <= gated) if found else ()
    obsolete = tuple(each for each in held if each.metadata.uid not in own)
    return DevicePlan(record.plan_id, tuple(found), view, obsolete, tuple(awaited))


def _claim_of(allocation: ClaimAllocation, pods: Iterable[Pod], view: DeviceView) -> ResourceClaim | None:
    """Return the ResourceClaim of a planned allocation. None if it does not exist yet or is being deleted, or if these
    pods do not all use the same claim.
    """
    names = {allocation.name} if allocation.name else set[str]()
    for pod in pods if allocation.pod_claim else ():
        names.add(claim_names(pod).get(allocation.pod_claim, ""))
    if len(names) != 1:
        return None
    claim = view.by_key.get(f"{allocation.namespace}/{names.pop()}")
    return claim if claim is not None and claim.metadata.deletion_timestamp is None else None


def claim_names(pod: Pod) -> Mapping[str, str]:
    """Return the names of the pod's claims, by their entries in `spec.resourceClaims`, as far as the claims exist."""
    made = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    named = {each.get("name", ""): each.get("resourceClaimName") or "" for each in pod.spec.resource_claims}
    return {entry: name or made.get(entry, "") for entry, name in named.items() if name or made.get(entry)}


def in_flight(view: DeviceView, pods: Iterable[Pod], nodes: Container[str]) -> Iterator[Pod]:
    """Yield the pods that the scheduler may be about to bind, with devices that no claim shows yet.

    The scheduler nominates such a pod for its node first, then writes its claims, and binds it last
    (kube-scheduler, `schedule_one.go`, `bindingCycle`).

    :param nodes: the nodes of the devices in question.
    """
    for pod in pods:
        if pod.bound or pod.status.nominated_node_name not in nodes or pod.spec.scheduling_gates or pod.finished:
            continue
        if not _has_all_devices(pod, view) or classes_without_claim(pod, view):
            yield pod


def _has_all_devices(pod: Pod, view: DeviceView) -> bool:
    claims = (view.by_key.get(f"{pod.metadata.namespace}/{name}") for name in claim_names(pod).values())
    return all(claim is not None and claim.status.allocation is not None for claim in claims)


def classes_without_claim(pod: Pod, view: DeviceView) -> frozenset[str]:
    """Return the DeviceClasses that provide extended resources of the pod; empty once the pod has their devices.

    The scheduler creates the claim for such devices while it binds the pod, and reserves it for the pod (decision 46).
    """
    if not view.classes:
        return frozenset()
    found = provided_by_classes(pod.spec, view.by_resource, ())
    if not found:
        return frozenset()
    named = set(claim_names(pod).values())
    made = (each for each in view.by_consumer.get(pod.metadata.uid, ()) if each.metadata.name not in named)
    return frozenset() if any(True for _ in made) else frozenset(found.values())


def is_ours(claim: ResourceClaim) -> bool:
    """Return whether the controller has marked the claim, before it allocated devices to it."""
    return PLAN in claim.metadata.annotations


def is_rule(rule: DeviceTaintRule, purpose: str) -> bool:
    """Return whether the controller created the taint rule for this purpose (`TAKING` or `YIELDING`)."""
    return rule.metadata.labels.get(DEVICE_RULE) == purpose


def plan_of(rule: DeviceTaintRule) -> str:
    """Return the plan for which the taint rule was created."""
    return rule.metadata.annotations.get(PLAN, "")


def taking_rule(plan_id: str, pool: Pool) -> dict[str, Any]:
    """Return the manifest of the taint rule that keeps new claims off a pool while the plan takes its devices.

    Equal arguments give equal names, so a taint rule cannot exist twice.
    """
    driver, name = pool
    return _rule(TAKING, plan_id, {"driver": driver, "pool": name})


def _taint_value(purpose: str, plan_id: str) -> str:
    """Return the value of the taint that a taint rule adds. Each plan has its own value, so a probe can tolerate the
    taints of other plans.
    """
    return f"{purpose}-{hashlib.sha256(plan_id.encode()).hexdigest()[:16]}"


def yielding_rule(plan_id: str, device: DeviceId) -> dict[str, Any]:
    """Return the manifest of the taint rule that keeps new claims off a device that two claims have."""
    return _rule(YIELDING, plan_id, {"driver": device.driver, "pool": device.pool, "device": device.device})


def _rule(purpose: str, plan_id: str, selector: Mapping[str, str]) -> dict[str, Any]:
    name = hashlib.sha256("/".join((plan_id, *selector.values())).encode()).hexdigest()[:16]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {
            "name": f"phalanx-{purpose}-{name}",
            "labels": {DEVICE_RULE: purpose},
            "annotations": {PLAN: plan_id},
        },
        "spec": {
            "deviceSelector": dict(selector),
            "taint": {"key": DEVICES_TAKEN, "value": _taint_value(purpose, plan_id), "effect": "NoSchedule"},
        },
    }


def allocation_status(planned: PlannedClaim, view: DeviceView, now: str) -> dict[str, Any]:
    """Return the status that gives a claim its planned devices and reserves it for its members, in one write.

    An allocation that is as planned already stays word by word. Otherwise the fields are those that kube-scheduler
    writes (dynamic-resource-allocation, `structured`): the devices, with the tolerations of their requests; the
    identifier and the consumed capacity of each share; the parameters of classes and claim; the node; the time.

    :param now: the present time, RFC 3339.
    """
    claim = planned.claim
    known = {each.uid: each for each in claim.status.reserved_for} if claim is not None else {}
    consumers = [{"resource": each.resource, "name": each.name, "uid": each.uid} for each in known.values()]
    consumers += [
        {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
        for pod in planned.pods
        if pod.metadata.uid not in known
    ]
    status: dict[str, Any] = {"reservedFor": consumers}
    if planned.as_planned or claim is None:
        return status
    spec = claim.spec.devices
    requests = dict(_requests(spec))
    results = [
        {
            "request": each.request,
            "driver": each.device.driver,
            "pool": each.device.pool,
            "device": each.device.device,
            **({"adminAccess": True} if each.admin_access else {}),
            **_tolerations(requests.get(each.request)),
            **(_share(each, f"{claim.metadata.uid}/{now}/{place}") if each.shared else {}),
        }
        for place, each in enumerate(planned.allocation.devices)
    ]
    config = _config(spec, {each.request for each in planned.allocation.devices}, view)
    field = {"key": "metadata.name", "operator": "In", "values": [planned.allocation.node]}
    status["allocation"] = {
        "devices": {"results": results, **({"config": config} if config else {})},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        "allocationTimestamp": now,
    }
    return status


def _config(spec: DeviceClaim, served: Container[str], view: DeviceView) -> list[dict[str, Any]]:
    """Return the parameters of an allocation: those of the classes, each class once, then those of the claim.

    An entry without `requests` applies to all requests. So an entry names its requests, unless it applies to all
    requests that got devices (kube-scheduler 1.37).

    :param served: the requests, or subrequests, that got devices.
    """
    used, of_class = list[str](), defaultdict[str, list[str]](list)
    for name, request in _requests(spec):
        if name in served:
            used.append(name)
            of_class[request.device_class_name].append(name)
    config = [
        {"source": "FromClass", "requests": names, **each}
        for name, names in of_class.items()
        if (found := view.classes.get(name)) is not None
        for each in found.spec.config
    ]
    config += [{"source": "FromClaim", **each} for each in spec.config if _concerns(each, used)]
    for each in config:
        if all(_concerns(each, [name]) for name in used):
            each.pop("requests", None)
    return config


def _share(device: AllocatedDevice, key: str) -> dict[str, Any]:
    """Return the fields of a share: an identifier that no other share of the device has, and the consumed amounts.

    kube-scheduler counts a device without `shareID` as allocated to one claim only (`allocateddevices.go`).

    :param key: from which the identifier is derived, so that equal writes are equal.
    """
    consumed = {"consumedCapacity": dict(device.consumed)} if device.consumed else {}
    return {"shareID": str(uuid5(NAMESPACE_OID, key)), **consumed}


def _requests(spec: DeviceClaim) -> Iterator[tuple[str, ExactDeviceRequest]]:
    """Yield the requests of a claim by name; a subrequest of `firstAvailable` as `request/name`."""
    for each in spec.requests:
        if each.exactly is not None:
            yield each.name, each.exactly
        for choice in each.first_available:
            yield f"{each.name}/{choice.name}", choice


def _tolerations(request: ExactDeviceRequest | None) -> dict[str, Any]:
    found = request.tolerations if request is not None else ()
    return {"tolerations": [msgspec.to_builtins(each) for each in found]} if found else {}


def _concerns(config: Mapping[str, Any], used: Iterable[str]) -> bool:
    """Return whether parameters of a claim concern one of the requests `used`, which got devices.

    Parameters that name no request concern every request.
    """
    names = config.get("requests") or ()
    return not names or any(each in names or each.partition("/")[0] in names for each in used)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A probe that could be scheduled if the taint rules of a plan did not taint the pool of its device.

    `version`: the resourceVersion of the taint rule that taints the pool, as a number. `node` and `spec`: the probe
    goes to this node and has a claim with this spec. `device`: the device that it could get. None if all planned
    devices are allocated: a refusal then does not prove that the scheduler has seen the taint rules. `amounts`: what
    the claim would consume of a shared device; None if the device is not shared.
    """

    version: int
    node: str
    spec: Mapping[str, Any]
    device: DeviceId | None
    amounts: Amounts | None = None

    def is_free(self, view: DeviceView) -> bool:
        """Return whether the probe could get the device now, as far as claims show."""
        return self.device is None or view.has_room(self.device, self.amounts)


def wanting(devices: DevicePlan) -> Wanted | None:
    """Return the probe that shows when the scheduler has seen the taint rules of the plan; None if no probe can show
    it.

    The probe requests a planned device that is free, as the claim of the plan does. Of the pools with such a device,
    the pool of the newest taint rule is taken, because the scheduler sees taint rules in the order of their writes. The
    claim of the probe tolerates all taints of the device except those of the plan. A refusal for another taint would
    show nothing.
    """
    view = devices.view
    found = max(_tainted(devices), key=lambda e: (view.has_room(e.device, e.amounts), e.version), default=None)
    if found is None:
        return None
    exactly: dict[str, Any] = {
        "deviceClassName": found.request.device_class_name,
        "selectors": [msgspec.to_builtins(each) for each in found.request.selectors],
    }
    if tolerations := _tolerations_of_others(devices, found.device):
        exactly["tolerations"] = tolerations
    if found.request.capacity is not None:
        exactly["capacity"] = msgspec.to_builtins(found.request.capacity)
    spec = {"devices": {"requests": [{"name": "probe", "exactly": exactly}]}}
    free = found.device if view.has_room(found.device, found.amounts) else None
    return Wanted(found.version, found.node, spec, free, found.amounts)


class _Tainted(NamedTuple):
    """A planned device in a pool that a taint rule of the plan taints. `version`: the taint rule's resourceVersion.

    `amounts`: what the request consumes of a shared device; None if the device is not shared.
    """

    version: int
    device: DeviceId
    node: str
    request: ExactDeviceRequest
    amounts: Amounts | None


def _tainted(devices: DevicePlan) -> Iterator[_Tainted]:
    """Yield the planned devices whose pool a taint rule of the plan taints already."""
    versions = {
        (at.driver, at.pool): int(rule.metadata.resource_version or 0)
        for rule in devices.rules
        if (at := rule.spec.device_selector) is not None
    }
    for planned in devices.claims:
        requests = dict(_requests(planned.claim.spec.devices)) if planned.claim is not None else {}
        for each in planned.allocation.devices:
            version = versions.get((each.device.driver, each.device.pool))
            if version is not None and not each.admin_access and each.request in requests:
                amounts = each.amounts if each.shared else None
                yield _Tainted(version, each.device, planned.allocation.node, requests[each.request], amounts)


def _tolerations_of_others(devices: DevicePlan, device: DeviceId) -> list[dict[str, str]]:
    """Return the tolerations of all taints of a device, except those by which the plan takes its devices."""
    own = {each.metadata.name for each in devices.rules}
    rules = (each.spec for each in devices.view.rules if each.metadata.name not in own)
    taints = [each.taint for each in rules if _selects(each.device_selector, device)]
    for each in devices.view.partitions.slices:
        if (each.spec.driver, each.spec.pool.name) == (device.driver, device.pool):
            taints += [taint for one in each.spec.devices if one.name == device.device for taint in one.taints]
    values = dict.fromkeys((each.key, each.value) for each in taints)
    found = [{"key": key, "operator": "Equal", "value": value} for key, value in values]
    return found[:_MOST_TOLERATIONS]


def _selects(selector: DeviceTaintSelector | None, device: DeviceId) -> bool:
    """Return whether the selector of a DeviceTaintRule selects this device."""
    if selector is None:
        return False
    pairs = (selector.driver, device.driver), (selector.pool, device.pool), (selector.device, device.device)
    return all(wanted is None or wanted == actual for wanted, actual in pairs)
