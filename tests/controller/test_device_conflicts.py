"""Which plans give way if two gangs have planned the same devices, or partitions of one physical device."""

from dataclasses import replace

import msgspec
from manual_clock import ManualClock
from msgspec import structs
from protocol_scenes import gang, pod, record, snapshot

from cluster.devices.allocation import AllocatedDevice, ClaimAllocation, DeviceId
from cluster.devices.holdings import DeviceView
from cluster.devices.partitions import NO_PARTITIONS, Partitions
from controller.cluster_view import ClusterView
from controller.reconcile_state import ReconcileState
from controller.release.next_step import AllBound, Cause
from controller.scheduling.device_conflicts import YIELD_SECONDS, DeviceConflicts, frees_devices
from gangs.model import GangKey, Reading
from gangs.sources import Sources
from kube.devices import DeviceClass, DeviceClassSpec, ResourceClaim, ResourceSlice
from kube.objects import Condition, Container, ObjectMeta, PodResourceClaimStatus, ResourceRequirements
from planning.decision import Assignment, Decision, Eviction, Outcome
from planning.message import Message

DRIVER = "gpu.example.com"


def partitions(memory: int) -> Partitions:
    """n1: devices gpu-0 and gpu-1, which consume 4 each of the memory of one physical device."""
    consumes = [{"counterSet": "gpu", "counters": {"memory": {"value": "4"}}}]
    devices = [{"name": f"gpu-{number}", "consumesCounters": consumes} for number in range(2)]
    counters = [{"name": "gpu", "counters": {"memory": {"value": str(memory)}}}]
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": devices, "sharedCounters": counters}
    return Partitions((msgspec.convert({"spec": spec}, ResourceSlice),))


def planned(name: str, device: str, *, priority: int = 10) -> ReconcileState:
    """A gang of one pod, with a plan that gives this device on n1 to the pod's claim."""
    of = replace(gang(pod(name, nominated="n1", priority=priority)), key=GangKey("phalanx", "default", name))
    got = (AllocatedDevice("gpu", DeviceId(DRIVER, "n1", device)),)
    claims = (ClaimAllocation("default", "", "n1", got, (name,), "gpu"),)
    return ReconcileState(of, {}, replace(record([(name, "n1")]), claims=claims), AllBound())


def losers(*states: ReconcileState, partitions: Partitions = NO_PARTITIONS) -> dict[str, str]:
    """The gangs whose plans are invalidated, with the message."""
    devices = DeviceView(known=True, taints=True, partitions=partitions)
    seen = ClusterView(Sources(), Reading(()), (), (), snapshot(), {}, devices=devices)
    found = DeviceConflicts().find(states, seen)
    assert all(each.cause is Cause.DEVICES_TAKEN for each in found.values())
    return {key.name: each.message for key, each in found.items()}


def test_the_gang_of_higher_priority_keeps_a_device_of_two_plans() -> None:
    assert losers(planned("a", "gpu-0"), planned("b", "gpu-0", priority=20)) == {
        "a": "gang default/b takes device gpu-0 of pool n1"
    }
    assert losers(planned("a", "gpu-0"), planned("b", "gpu-1")) == {}


def test_plans_with_partitions_that_exclude_each_other_do_not_both_hold() -> None:
    states = planned("a", "gpu-0"), planned("b", "gpu-1", priority=20)
    assert losers(*states, partitions=partitions(4)) == {"a": "gang default/b takes device gpu-1 of pool n1"}
    assert losers(*states, partitions=partitions(8)) == {}


def test_a_victim_with_a_partition_of_the_planned_device_is_needed() -> None:
    """Otherwise the plan counts as one that fits without its evictions, and is dropped again and again."""
    state = planned("a", "gpu-0")
    (claim,) = state.record.claims if state.record is not None else ()
    (only,) = state.gang.members
    evictions = (Eviction("default", "low", "uid-low", "n1", 1),)
    assignments = (Assignment(only, 0, "n1", devices=(claim,)),)
    message = Message.of("placed")
    decision = Decision(state.gang, state.gang.key, Outcome.PLACED, message, assignments, evictions=evictions)
    result = {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": "gpu-1"}
    status = {"reservedFor": [{"uid": "uid-low"}], "allocation": {"devices": {"results": [result]}}}
    of_victim = msgspec.convert({"status": status}, ResourceClaim)
    for counters, needed in ((partitions(4), True), (NO_PARTITIONS, False)):
        devices = DeviceView((of_victim,), known=True, taints=True, partitions=counters)
        seen = ClusterView(Sources(), Reading(()), (), (), snapshot(), {}, devices=devices)
        assert frees_devices(decision, seen) is needed


def test_a_pod_of_higher_priority_gets_devices_for_an_extended_resource() -> None:
    """The scheduler would leave the pod waiting for as long as the gang holds the devices."""
    state = planned("a", "gpu-0")
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
    status = (PodResourceClaimStatus(name="gpu", resource_claim_name="a-gpu"),)
    (only,) = state.gang.members
    claiming = structs.replace(
        only.pod,
        spec=structs.replace(only.pod.spec, resource_claims=({"name": "gpu", "resourceClaimTemplateName": "one"},)),
        status=structs.replace(only.pod.status, resource_claim_statuses=status),
    )
    state = replace(state, gang=replace(state.gang, members=(replace(only, pod=claiming),)))
    of_member = msgspec.convert({"metadata": {"name": "a-gpu", "namespace": "default"}, "spec": spec}, ResourceClaim)
    urgent = pod("urgent", gated=False, priority=20)
    container = Container(name="main", resources=ResourceRequirements(limits={"example.com/gpu": "1"}))
    condition = Condition(type="PodScheduled", status="False", reason="Unschedulable")
    urgent = structs.replace(
        urgent,
        spec=structs.replace(urgent.spec, containers=(container,)),
        status=structs.replace(urgent.status, conditions=(condition,)),
    )
    gpus = DeviceClass(metadata=ObjectMeta(name="gpu"), spec=DeviceClassSpec(extended_resource_name="example.com/gpu"))
    clock = ManualClock()
    conflicts = DeviceConflicts(clock)
    devices = DeviceView((of_member,), classes={"gpu": gpus}, known=True, taints=True)
    seen = ClusterView(Sources(), Reading(()), (), (), snapshot(), {"uid-urgent": urgent}, devices=devices)
    assert conflicts.find((state,), seen) == {}
    clock.now += YIELD_SECONDS
    (needed,) = conflicts.find((state,), seen).values()
    assert needed.message == "pod default/urgent of priority 20 needs its devices"
