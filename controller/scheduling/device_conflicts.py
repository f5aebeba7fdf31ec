"""Invalidates plans that lose their devices: to another plan, or to a waiting pod of higher priority.

kube-scheduler never takes devices from a claim, whatever the priority of the pod that needs them. So the controller
itself gives up the devices of gangs that are not released (docs/decisions/0045).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cluster.devices.allocation import AllocatedDevice, ClaimAllocation, DeviceId
from cluster.devices.capacity import Amounts, exceeds, total
from cluster.devices.holdings import DeviceView, consumers
from cluster.devices.partitions import Partitions
from cluster.eligibility.nodes import Eligibility
from cluster.snapshot import Snapshot
from controller.cluster_view import ClusterView
from controller.reconcile_state import ReconcileState
from controller.release.devices import DevicePlan, claim_names, classes_without_claim, device_plan
from controller.release.next_step import Cause, NeedPlan
from gangs.model import GangKey
from kube.devices import ResourceClaim
from kube.keys import GATE
from kube.objects import Pod
from planning.decision import Decision
from timing.clock import SYSTEM_CLOCK, Clock

YIELD_SECONDS = 5.0
"""Seconds for which a pod of higher priority must have waited for devices before a gang gives up its own.

kube-scheduler binds most pods within a second. A pod that waits longer gets no devices that are free.
"""
_UNSCHEDULABLE = "Unschedulable"


@dataclass(frozen=True, slots=True)
class _Holding:
    """A gang with a plan in force, and the claims of its gated members."""

    gang_state: ReconcileState
    devices: DevicePlan

    @property
    def rank(self) -> tuple[int, bool, str, GangKey]:
        """The sort key of the gang: if several plans have one device, the plan of the gang with the smallest key keeps
        it.
        """
        gang = self.gang_state.gang
        return -gang.priority, bool(self.devices.unheld), gang.created or "", gang.key


class DeviceConflicts:
    """Finds the plans whose devices another plan has, or a waiting pod of higher priority needs.

    It remembers since when pods wait, and for which pods devices were given up already. The memory is not durable: a
    new leader lets the pods wait once more.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._since: dict[str, float] = {}
        self._served: set[str] = set()

    def find(self, gang_states: Sequence[ReconcileState], cluster_view: ClusterView) -> Mapping[GangKey, NeedPlan]:
        """Return the step `NeedPlan` for each gang whose plan is invalidated, because the gang must give up the devices
        of its plan.
        """
        view = cluster_view.devices
        holding = [
            _Holding(each, device_plan(each.gang, each.record, view))
            for each in gang_states
            if each.record is not None and each.record.claims and not isinstance(each.step, NeedPlan)
        ]
        holding = [each for each in holding if each.devices.claims]
        if not holding:
            self._since.clear()
            self._served.clear()
            return {}
        found = dict(_twice_planned(holding))
        left = [each for each in holding if each.gang_state.gang.key not in found]
        return found | dict(self._needed(left, cluster_view))

    def _needed(self, holding: Sequence[_Holding], cluster_view: ClusterView) -> Iterator[tuple[GangKey, NeedPlan]]:
        """Yield the gangs that give up their devices because a pod waits for devices, each with the step `NeedPlan`.
        For each waiting pod, one gang gives up: the gang of the lowest priority that can help.

        If the waiting pod is nominated, its priority does not matter. A gang that takes devices of the pod's node waits
        for the pod (`controller.acting.holding`), and the gang's taint rules keep the pod from every device of the
        node.
        """
        view, now = cluster_view.devices, self._clock.monotonic()
        waiting = {pod.metadata.uid: pod for pod in cluster_view.live.values() if _waits(pod, view)}
        self._since = {uid: self._since.get(uid, now) for uid in waiting}
        self._served.intersection_update(waiting)
        given = set[GangKey]()
        for uid, pod in waiting.items():
            if uid in self._served or now - self._since[uid] < YIELD_SECONDS:
                continue
            able = [each for each in holding if each.gang_state.gang.key not in given]
            if pod.status.nominated_node_name:
                found = _taking_on(pod.status.nominated_node_name, able)
            else:
                found = _lowest_that_helps(pod, able, cluster_view.snapshot, view)
            if found is None:
                continue
            if not pod.status.nominated_node_name:
                self._served.add(uid)
            given.add(found.gang_state.gang.key)
            why = f"pod {pod.key} of priority {pod.spec.priority or 0} needs its devices"
            yield found.gang_state.gang.key, NeedPlan(why, found.gang_state.held, Cause.DEVICES_NEEDED)


def beside_device_plans(cluster_view: ClusterView, gang_states: Iterable[ReconcileState]) -> ClusterView:
    """Return the cluster view in which the devices of plans in force count as taken, so that no new plan takes them.

    Only claims that do not have their planned devices yet are added to the view. If a waiting pod is nominated to a
    node and lacks devices, all devices of this node count as taken, too.
    """
    devices = cluster_view.snapshot.devices
    if devices is None:
        return cluster_view
    waiting = [each for each in cluster_view.live.values() if _waits(each, cluster_view.devices)]
    promised = [
        claim.allocation
        for each in gang_states
        if each.record is not None and each.record.claims and not isinstance(each.step, NeedPlan)
        for claim in device_plan(each.gang, each.record, cluster_view.devices).claims
        if not claim.as_planned
    ]
    promised += _all_of_nominated(waiting, cluster_view.devices)
    if not promised:
        return cluster_view
    return replace(cluster_view, snapshot=replace(cluster_view.snapshot, devices=devices.with_planned(promised)))


def device_lost(decision: Decision, cluster_view: ClusterView) -> str:
    """Return why a device of a new plan is not available any more; "" if all its devices are. Devices of the plan's
    victims count as available.
    """
    gone = {each.uid for each in decision.evictions}
    own = {each.member.pod.metadata.uid for each in decision.assignments}
    priority = decision.gang.priority if decision.gang is not None else 0
    view, planned = cluster_view.devices, list(_planned(decision))

    def stays(holder: ResourceClaim) -> bool:
        pods = [cluster_view.live.get(uid) for uid in consumers(holder) - gone - own]
        return any(pod is None or not _gives_way(pod, priority) for pod in pods) or not holder.status.reserved_for

    for device in (each.device for each in planned):
        for holder in filter(stays, view.holders.get(device, ())):
            return f"device {device.device} of pool {device.pool} is allocated to ResourceClaim {holder.key} by now"
    for device, amounts in _consumed(planned).items():
        others = [amounts for claim, amounts in view.sharers.get(device, ()) if stays(claim)]
        if exceeds(total((*others, amounts)), view.partitions.shared_capacity.get(device, {})):
            return f"device {device.device} of pool {device.pool} has too little capacity left by now"
    return ""


def frees_devices(decision: Decision, cluster_view: ClusterView) -> bool:
    """Return whether a victim of the plan has a device that the plan needs, or a device that consumes counters which a
    needed device consumes, too.
    """
    gone, view = {each.uid for each in decision.evictions}, cluster_view.devices
    planned, consumption = {each.device for each in _planned(decision)}, view.partitions.consumption
    counters = {key for device in planned for key in consumption.get(device, {})}
    return any(
        consumers(holder) & gone
        for device, holders in view.users.items()
        if device in planned or not counters.isdisjoint(consumption.get(device, {}))
        for holder in holders
    )


def _planned(decision: Decision) -> Iterator[AllocatedDevice]:
    for assignment in decision.assignments:
        for claim in assignment.devices:
            yield from (each for each in claim.devices if not each.admin_access)


def _consumed(planned: Iterable[AllocatedDevice]) -> Mapping[DeviceId, Amounts]:
    """Return, by shared device, the amounts of its capacities that these devices of a plan consume together."""
    found = defaultdict[DeviceId, list[Amounts]](list)
    for each in planned:
        if each.shared:
            found[each.device].append(each.amounts)
    return {device: total(amounts) for device, amounts in found.items()}


def _gives_way(pod: Pod, priority: int) -> bool:
    """Return whether the devices of the pod will soon be free for a plan of this priority.

    True if the pod terminates, or if it is gated and of lower priority. Phalanx has allocated the devices of a gated
    pod in advance, so Phalanx can deallocate them.
    """
    return pod.terminating or (pod.gated_by(GATE) and (pod.spec.priority or 0) < priority)


def _twice_planned(holding: Sequence[_Holding]) -> Iterator[tuple[GangKey, NeedPlan]]:
    """Yield the gangs whose plan has a device that is also in the plan of a gang before them, each with the step
    `NeedPlan`. A partition that cannot be allocated beside such a device counts like the device.

    Several plans may share a device up to its capacity. Gangs of higher priority come first, then gangs whose claims
    have their devices already, then older gangs.
    """
    taken = dict[DeviceId, GangKey]()
    shares = _Shares(holding)
    for each in sorted(holding, key=lambda one: one.rank):
        own = [device for claim in each.devices.claims for device in claim.devices]
        consumed = _consumed(one for claim in each.devices.claims for one in claim.allocation.devices)
        lost = next(
            ((device, taken[device]) for device in own if device in taken and not shares.have_room(device, consumed)),
            None,
        )
        lost = lost or _excluded(own, taken, each.devices.view.partitions)
        if lost is None:
            taken |= dict.fromkeys(own, each.gang_state.gang.key)
            shares.take(consumed)
        else:
            why = f"gang {lost[1]} takes device {lost[0].device} of pool {lost[0].pool}"
            yield each.gang_state.gang.key, NeedPlan(why, each.gang_state.held, Cause.DEVICES_TAKEN)


class _Shares:
    """The amounts that plans in force and other claims consume of shared devices."""

    def __init__(self, holding: Sequence[_Holding]) -> None:
        self._view = holding[0].devices.view if holding else DeviceView()
        self._consumed = defaultdict[DeviceId, list[Amounts]](list)
        """By device: what the plans that were taken so far consume."""
        records = (each.gang_state.record for each in holding)
        self._going = {victim.uid for record in records if record is not None for victim in record.victims}
        claims = (claim.claim for each in holding for claim in each.devices.claims if claim.claim is not None)
        obsolete = (claim for each in holding for claim in each.devices.obsolete)
        self._planned = {each.metadata.uid for each in (*claims, *obsolete)}
        """The UIDs of the claims for which the plans have devices, or whose devices the plans give up."""

    def have_room(self, device: DeviceId, consumed: Mapping[DeviceId, Amounts]) -> bool:
        """Return whether one more plan can consume these amounts of the device, beside the plans recorded by `take` and
        the claims outside these plans.

        :param consumed: by shared device, the amounts that the plan consumes.
        """
        if device not in consumed or device not in self._consumed:
            return False
        others = (
            amounts
            for claim, amounts in self._view.sharers.get(device, ())
            if claim.metadata.uid not in self._planned and not (consumers(claim) and consumers(claim) <= self._going)
        )
        amounts = total((*self._consumed[device], *others, consumed[device]))
        return not exceeds(amounts, self._view.partitions.shared_capacity.get(device, {}))

    def take(self, consumed: Mapping[DeviceId, Amounts]) -> None:
        """Record the amounts that a plan consumes of shared devices, so that later plans have less."""
        for device, amounts in consumed.items():
            self._consumed[device].append(amounts)


def _excluded(
    own: Sequence[DeviceId], taken: Mapping[DeviceId, GangKey], partitions: Partitions
) -> tuple[DeviceId, GangKey] | None:
    """Return a device of an earlier plan that cannot be allocated beside the devices `own`, and the gang of that plan.
    The reason is that the devices together overdraw a counter. None if there is no such device.
    """
    counters = {key for device in own for key in partitions.consumption.get(device, {})}
    if not counters:
        return None
    overdrawn = counters.intersection(partitions.overdrawn((*own, *taken)))
    sharing = (each for each in taken if not overdrawn.isdisjoint(partitions.consumption.get(each, {})))
    found = next(sharing, None)
    return None if found is None else (found, taken[found])


def _waits(pod: Pod, view: DeviceView) -> bool:
    """Return whether the scheduler has tried the pod and found no node, and the pod lacks devices of a claim or of an
    extended resource.
    """
    if pod.bound or pod.spec.scheduling_gates or pod.terminating:
        return False
    refused = any(each.type == "PodScheduled" and each.reason == _UNSCHEDULABLE for each in pod.status.conditions)
    return refused and (any(True for _ in _unallocated(pod, view)) or bool(classes_without_claim(pod, view)))


def _all_of_nominated(waiting: Iterable[Pod], view: DeviceView) -> Iterator[ClaimAllocation]:
    """Yield all devices of the nodes to which these pods are nominated, as an allocation to each pod.

    Devices of slices without a node name are left out, because no single node has them.
    """
    by_node = {pod.status.nominated_node_name: pod for pod in waiting if pod.status.nominated_node_name}
    for each in view.partitions.slices if by_node else ():
        pod = by_node.get(each.spec.node_name or "")
        if pod is not None:
            ids = (DeviceId(each.spec.driver, each.spec.pool.name, device.name) for device in each.spec.devices)
            devices = tuple(AllocatedDevice("", device) for device in ids)
            meta = pod.metadata
            yield ClaimAllocation(meta.namespace, "", each.spec.node_name, devices, (meta.name,))


def _taking_on(node: str, holding: Iterable[_Holding]) -> _Holding | None:
    """Return the gang of lowest priority whose plan takes devices on the node that are not allocated to its claims
    yet.
    """
    ranked = sorted(holding, key=lambda each: each.rank, reverse=True)
    return next((each for each in ranked if any(c.allocation.node == node for c in each.devices.unheld)), None)


def _unallocated(pod: Pod, view: DeviceView) -> Iterator[ResourceClaim]:
    for name in claim_names(pod).values():
        claim = view.by_key.get(f"{pod.metadata.namespace}/{name}")
        if claim is not None and claim.status.allocation is None:
            yield claim


def _lowest_that_helps(pod: Pod, holding: Iterable[_Holding], snapshot: Snapshot, view: DeviceView) -> _Holding | None:
    """Return the gang of the lowest priority whose devices may help the waiting pod. Of equal priorities, return the
    youngest gang. None if no gang can help.

    The gang's priority is lower than the pod's. Its claims have devices of a DeviceClass that the pod asks for, on a
    node that the pod may use.
    """
    wanted = {name for claim in _unallocated(pod, view) for name in _classes(claim)} | classes_without_claim(pod, view)
    eligible = Eligibility(pod, snapshot)
    for each in sorted(holding, key=lambda one: one.rank, reverse=True):
        if each.gang_state.gang.priority >= (pod.spec.priority or 0):
            continue
        for claim in each.devices.claims:
            state = snapshot.state(claim.allocation.node)
            if claim.claim is None or state is None or wanted.isdisjoint(_classes(claim.claim)):
                continue
            if not eligible.exclusion(state):
                return each
    return None


def _classes(claim: ResourceClaim) -> Iterator[str]:
    """Yield the DeviceClasses that the claim asks for."""
    for request in claim.spec.devices.requests:
        for each in (request.exactly, *request.first_available):
            if each is not None:
                yield each.device_class_name
