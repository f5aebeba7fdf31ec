"""Steps about devices that several claims share: capacity is what matters, and not the number of claims.

n1: one device with 8Gi of memory that several claims share. The gang `llm`: pods a and b, each with a share of 3Gi of
the device.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from uuid import UUID

import msgspec
import pytest
from function_calls import function_calls
from local_api.direct import DirectTransport
from local_api.resources import FOR_DEVICES
from local_api.server import LocalApi, local_api
from protocol_scenes import PLAN_ID, gang, pod, record, situation, snapshot

from cluster.devices.allocation import AllocatedDevice, ClaimAllocation, DeviceId
from cluster.devices.holdings import DeviceView
from cluster.devices.partitions import Partitions
from controller.acting.device_probes import TaintProbes
from controller.acting.holding import DeviceHolder
from controller.cluster_view import ClusterView
from controller.reconcile_state import ReconcileState
from controller.release.devices import Wanted, allocation_status, device_plan, taking_rule, wanting
from controller.release.next_step import (
    AllBound,
    AwaitDevices,
    Cause,
    Evict,
    GiveUp,
    Hold,
    NeedPlan,
    Release,
    Step,
    Untaint,
    Yield,
    next_step,
)
from controller.release.records import PlanRecord, claims_entry, record_from
from controller.scheduling.device_conflicts import DeviceConflicts, device_lost, frees_devices
from controller.writes.writer import Writer
from gangs.model import GangKey, Reading
from gangs.sources import Sources
from kube.devices import DeviceTaintRule, ResourceClaim, ResourceSlice
from kube.keys import PLAN
from kube.objects import Pod, PodResourceClaimStatus
from planning.decision import Assignment, Decision, Eviction, Outcome
from planning.message import Message

DRIVER = "gpu.example.com"
DEVICE = DeviceId(DRIVER, "n1", "gpu-0")
POOL = (DRIVER, "n1")
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
RULES = "/apis/resource.k8s.io/v1/devicetaintrules"


def slices(memory: str = "8Gi", generation: int = 1) -> tuple[ResourceSlice, ...]:
    device = {"name": "gpu-0", "allowMultipleAllocations": True, "capacity": {"memory": {"value": memory}}}
    pool = {"name": "n1", "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": [device]}
    return (msgspec.convert({"spec": spec}, ResourceSlice),)


def member(name: str) -> Pod:
    """A gated and nominated member; its claim has been created from a template."""
    found = pod(name, nominated="n1", cpu="1")
    status = (PodResourceClaimStatus(name="gpu", resource_claim_name=f"{name}-gpu"),)
    spec = msgspec.structs.replace(found.spec, resource_claims=({"name": "gpu", "resourceClaimTemplateName": "one"},))
    return msgspec.structs.replace(
        found, spec=spec, status=msgspec.structs.replace(found.status, resource_claim_statuses=status)
    )


def claim(name: str, memory: str = "", pods: Iterable[str] = (), *, ours: bool = False, alone: bool = False) -> object:
    """A claim of 2500Mi: without devices, or with a share of the device. `alone`: with the whole device."""
    result = {"request": "gpu", **DEVICE._asdict()}
    if not alone:
        result |= {"shareID": f"share-{name}", "consumedCapacity": {"memory": memory}}
    exactly = {"deviceClassName": "gpu", "capacity": {"requests": {"memory": "2500Mi"}}}
    meta = {"name": name, "namespace": "default", "uid": f"uid-claim-{name}"}
    reserved = [{"resource": "pods", "name": each, "uid": f"uid-{each}"} for each in pods]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved} if memory or alone else {}
    return {
        "metadata": {**meta, "annotations": {PLAN: PLAN_ID} if ours else {}},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        "status": status,
    }


BARE = claim("a-gpu"), claim("b-gpu")
HELD = claim("a-gpu", "3Gi", ["a"], ours=True), claim("b-gpu", "3Gi", ["b"], ours=True)
RULE = taking_rule(PLAN_ID, POOL)


def share(memory: str = "3Gi") -> AllocatedDevice:
    return AllocatedDevice("gpu", DEVICE, shared=True, consumed=(("memory", memory),))


def plan(victims: Iterable[str] = (), of: Iterable[str] = ("a", "b")) -> PlanRecord:
    claims = tuple(ClaimAllocation("default", "", "n1", (share(),), (name,), "gpu") for name in of)
    found = record([(name, "n1") for name in of], [(name, "n1") for name in victims])
    return replace(found, claims=claims)


def view(*claims: object, rules: Iterable[object] = (RULE,), memory: str = "8Gi") -> DeviceView:
    return DeviceView(
        msgspec.convert(claims, tuple[ResourceClaim, ...]),
        msgspec.convert(tuple(rules), tuple[DeviceTaintRule, ...]),
        known=True,
        taints=True,
        partitions=Partitions(slices(memory)),
    )


def step(devices: DeviceView, *others: Pod, victims: Iterable[str] = ()) -> Step:
    found = situation(gang(member("a"), member("b")), plan(victims), *others)
    return next_step(replace(found, devices=devices))


def running(name: str, *, terminating: bool = False) -> Pod:
    return pod(name, bound="n1", cpu="0", priority=1, terminating=terminating)


def test_claims_may_share_a_device_up_to_its_capacity() -> None:
    """3Gi for each member, so 2Gi are left for other claims."""
    fits, more = claim("other", "2Gi", ["r"]), claim("other", "2049Mi", ["r"])
    assert isinstance(step(view(*BARE, fits), running("r")), Hold)
    half = step(view(HELD[0], BARE[1], fits), running("r"))
    assert isinstance(half, Hold)
    assert [each.allocation.pods for each in half.claims] == [("b",)]
    assert isinstance(step(view(*HELD, fits), running("r")), Untaint)
    assert isinstance(step(view(*HELD, fits, rules=())), Release)
    for claims in (BARE, (HELD[0], BARE[1])):
        taken = step(view(*claims, more), running("r"))
        assert isinstance(taken, NeedPlan)
        assert taken.cause is Cause.DEVICES_TAKEN
        message = "device gpu-0 of pool n1 has too little capacity left beside ResourceClaim default/other"
        assert taken.message == message


def test_the_work_grows_with_the_number_of_shares_and_not_with_its_square() -> None:
    """Each of many claims on one device would otherwise add up what all others consume."""

    def work(count: int) -> int:
        names = [f"m{number}" for number in range(count)]
        claims = [claim(f"{name}-gpu", "3Gi", [name], ours=True) for name in names]
        others = [claim(f"other-{name}", "1Gi", ["r"]) for name in names]
        devices = view(*claims, *others, memory="8Ti")
        of = gang(*map(member, names))
        found = device_plan(of, plan(of=names), devices)
        return function_calls(lambda: (found.doubled, [list(found.rivals(each)) for each in found.claims]))

    assert work(2), "the quantities of the API are remembered from here on"
    assert work(64) < 3 * work(32)


def test_shares_beyond_the_capacity_are_a_double() -> None:
    over = step(view(*HELD, claim("other", "2049Mi", ["r"]), rules=()), running("r"))
    assert isinstance(over, Yield)
    assert over.doubled == (DEVICE,)
    assert over.devices.doubled_shares == {DEVICE}


def test_only_the_newest_generation_of_a_pool_has_capacity() -> None:
    found = Partitions((*slices("8Gi"), *slices("4Gi", generation=2)))
    assert {name: int(each) for name, each in found.shared_capacity[DEVICE].items()} == {"memory": 4 * 2**30}


def test_a_whole_device_has_no_share_beside_it() -> None:
    """The scheduler counts an allocation without `shareID` as one of the whole device."""
    alone = claim("other", pods=["r"], alone=True)
    taken = step(view(*BARE, alone), running("r"))
    assert isinstance(taken, NeedPlan)
    assert taken.message == "device gpu-0 of pool n1 is allocated to ResourceClaim default/other"
    assert isinstance(step(view(*HELD, alone), running("r")), Yield)


def test_a_claim_is_as_planned_if_it_consumes_the_planned_amounts() -> None:
    assert isinstance(step(view(claim("a-gpu", "3072Mi", ["a"], ours=True), HELD[1])), Untaint)
    given_up = step(view(claim("a-gpu", "2Gi", ["a"], ours=True), HELD[1]))
    assert isinstance(given_up, GiveUp)
    assert [each.metadata.name for each in given_up.claims] == ["a-gpu"]
    whole = step(view(claim("a-gpu", pods=["a"], ours=True, alone=True), BARE[1]))
    assert isinstance(whole, GiveUp)


def test_claims_of_victims_are_waited_for_and_claims_that_stay_are_not_named() -> None:
    both = claim("victim", "3Gi", ["v"]), claim("other", "2Gi", ["r"])
    assert isinstance(step(view(*BARE, *both), running("v"), running("r"), victims=["v"]), Evict)
    ending = running("v", terminating=True)
    waiting = step(view(*BARE, *both), ending, running("r"), victims=["v"])
    assert isinstance(waiting, AwaitDevices)
    assert [each.metadata.name for _, each in waiting.holders] == ["victim"]


def test_an_allocation_has_an_identifier_and_the_consumed_capacity_of_each_share() -> None:
    devices = device_plan(gang(member("a"), member("b")), plan(), view(*BARE))
    written = [allocation_status(each, devices.view, "now") for each in devices.claims]
    assert written == [allocation_status(each, devices.view, "now") for each in devices.claims]
    results = [result for status in written for result in status["allocation"]["devices"]["results"]]
    assert [each["consumedCapacity"] for each in results] == [{"memory": "3Gi"}] * 2
    identifiers = [each["shareID"] for each in results]
    assert len(set(identifiers)) == 2
    assert [str(UUID(each)) for each in identifiers] == identifiers


def test_two_shares_of_one_claim_have_different_identifiers() -> None:
    twice = replace(plan(of=["a"]).claims[0], devices=(share("1Gi"), share("2Gi")))
    devices = device_plan(gang(member("a")), replace(plan(of=["a"]), claims=(twice,)), view(*BARE))
    status = allocation_status(devices.claims[0], devices.view, "now")
    results = status["allocation"]["devices"]["results"]
    assert len({each["shareID"] for each in results}) == 2
    assert devices.claims[0].devices == (DEVICE,)
    assert int(devices.claims[0].shares[DEVICE]["memory"]) == 3 * 2**30


@pytest.mark.parametrize("consumed", [(("lanes", "0"), ("memory", "3Gi")), ()])
def test_a_record_with_shares_is_read_back_from_the_status(consumed: tuple[tuple[str, str], ...]) -> None:
    """A device without capacities can be shared, too."""
    got = AllocatedDevice("gpu", DEVICE, shared=True, consumed=consumed), AllocatedDevice("nic", DEVICE)
    planned = replace(plan(), claims=(ClaimAllocation("default", "a-gpu", "n1", got, ("a",)),))
    entries = [{"uid": each.uid, "namespace": "default", "pod": each.name, "node": "n1"} for each in planned.members]
    assert record_from({"planId": PLAN_ID, "assignments": entries, "claims": claims_entry(planned.claims)}) == planned


def wanted_by(devices: DeviceView) -> Wanted | None:
    return wanting(device_plan(gang(member("a"), member("b")), plan(), devices))


def test_a_probe_asks_for_capacity_that_is_left() -> None:
    """The claims of the gang leave 2Gi when both are held: too little for a probe that asks as they do."""
    found = wanted_by(view(HELD[0], BARE[1]))
    assert found is not None
    (request,) = found.spec["devices"]["requests"]
    assert request["exactly"]["capacity"] == {"requests": {"memory": "2500Mi"}}
    assert found.device == DEVICE
    full = wanted_by(view(*HELD))
    assert full is not None
    assert full.device is None


@pytest.fixture
def api() -> Iterator[LocalApi]:
    """An API server that serves what is about devices."""
    with local_api(*FOR_DEVICES) as found:
        found.create("/api/v1/namespaces", {"metadata": {"name": "phalanx-system"}}, {"metadata": {"name": "default"}})
        found.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "phalanx-probe"}, "value": -1})
        yield found


@pytest.mark.parametrize(("memory", "proves"), [("5Gi", True), ("5121Mi", False)])
def test_a_refused_probe_proves_nothing_if_too_little_capacity_is_left_by_then(
    api: LocalApi, memory: str, proves: object
) -> None:
    """The probe consumes 3Gi. The scheduler refuses it for lack of capacity, whether it has seen the rule or not."""
    tried = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    writer = Writer(DirectTransport(api))
    probes, wanted = TaintProbes(writer), wanted_by(view(*BARE))
    assert wanted is not None
    probes.read_with([], view())
    probes.ask("plan", wanted)
    probes.send()
    for _ in range(2):  # the view must show the claim of the probe, and then its deletion
        pods = api.ask("GET", "/api/v1/namespaces/phalanx-system/pods")["items"]
        seen = (msgspec.convert({**each, "status": {"conditions": tried}}, Pod, strict=False) for each in pods)
        own = api.ask("GET", CLAIMS.replace("default", "phalanx-system"))["items"]
        now = view(claim("other", memory, ["r"]))
        probes.read_with(
            seen, replace(now, claims=(*now.claims, *msgspec.convert(own, list[ResourceClaim], strict=False)))
        )
        probes.clean(replace(now, claims=tuple(msgspec.convert(own, list[ResourceClaim], strict=False))))
    assert probes.seen("plan") is proves
    writer.close()


def test_shares_are_given_up_at_once_and_leave_no_rule(api: LocalApi) -> None:
    """The scheduler adds up what claims consume. A whole device stays tainted until the other claim has ended."""
    for each in HELD:
        assert isinstance(each, dict)
        api.create(CLAIMS, {"metadata": {"name": each["metadata"]["name"]}, "spec": each["spec"]})
    claims = msgspec.convert(api.ask("GET", CLAIMS)["items"], list[ResourceClaim], strict=False)
    held = msgspec.convert(HELD, list[ResourceClaim])
    with_uid = [
        msgspec.structs.replace(one, metadata=msgspec.structs.replace(there.metadata, annotations={PLAN: PLAN_ID}))
        for one, there in zip(held, claims, strict=True)
    ]
    seen = view(claim("other", "4Gi", ["r"]), rules=())
    seen = replace(seen, claims=(*seen.claims, *with_uid))
    due = step(seen, running("r"))
    assert isinstance(due, Yield)
    writer = Writer(DirectTransport(api))
    state = ReconcileState(gang(member("a"), member("b")), {}, plan(), due)
    DeviceHolder(writer).yield_devices(state, due.devices, due.doubled)
    writer.close()
    assert api.ask("GET", RULES)["items"] == []
    assert sorted(each for each in api.writes() if each.startswith("PATCH")) == [
        f"PATCH {CLAIMS}/a-gpu/status",
        f"PATCH {CLAIMS}/b-gpu/status",
    ]


def test_shares_that_the_scheduler_allocated_beyond_the_capacity_are_named(api: LocalApi) -> None:
    due = step(view(claim("a-gpu", "3Gi", ["o"]), HELD[1], claim("other", "4Gi", ["r"]), rules=()), running("r"))
    assert isinstance(due, Yield)
    only = replace(due.devices, claims=due.devices.claims[:1])
    over = replace(only, view=view(claim("a-gpu", "3Gi", ["o"]), claim("other", "6Gi", ["r"]), rules=()))
    writer = Writer(DirectTransport(api))
    state = ReconcileState(gang(member("a"), member("b")), {}, plan(), due)
    effects = DeviceHolder(writer).yield_devices(state, over, over.doubled)
    writer.close()
    assert effects.awaited == (
        "device gpu-0 of pool n1 is shared by ResourceClaim default/a-gpu and ResourceClaim default/other beyond its "
        "capacity: delete the pods of one of them"
    )


def planned(name: str, *, priority: int = 10, victims: Iterable[str] = ()) -> ReconcileState:
    """A gang of one pod of this name, whose plan gives a share of 3Gi to the pod's claim."""
    one = msgspec.structs.replace(member(name), spec=msgspec.structs.replace(member(name).spec, priority=priority))
    of = replace(gang(one), key=GangKey("phalanx", "default", name))
    return ReconcileState(of, {}, plan(victims, [name]), AllBound())


def losers(*states: ReconcileState, devices: DeviceView) -> list[str]:
    """The gangs whose plans are invalidated."""
    seen = ClusterView(Sources(), Reading(()), (), (), snapshot(), {}, devices=devices)
    return [key.name for key in DeviceConflicts().find(states, seen)]


def test_plans_of_several_gangs_share_a_device_up_to_its_capacity() -> None:
    two = planned("a"), planned("b", priority=20)
    assert losers(*two, devices=view()) == []
    assert losers(*two, planned("c", priority=15), devices=view()) == ["a"]
    assert losers(*two, devices=view(memory="5Gi")) == ["a"]


def test_what_other_claims_consume_counts_unless_their_pods_are_victims() -> None:
    """Each plan alone fits beside the other claim: the gang of lower priority gives way."""
    other = claim("other", "3Gi", ["r"])
    two = planned("a"), planned("b", priority=20)
    assert losers(*two, devices=view(other)) == ["a"]
    assert losers(planned("a", victims=["r"]), two[1], devices=view(other)) == []
    assert losers(*two, devices=view(*HELD, claim("other", "2Gi", ["r"]))) == [], "their own claims count once"


def decision(*evictions: Eviction) -> Decision:
    """A new plan of the gang `llm` with a share of 3Gi for each of two members."""
    of = gang(member("a"), member("b"))
    assignments = tuple(
        Assignment(each, 0, "n1", devices=(one,)) for each, one in zip(of.members, plan().claims, strict=True)
    )
    return Decision(of, of.key, Outcome.PLACED, Message.of("placed"), assignments, evictions=evictions)


def test_a_new_plan_is_dropped_if_too_little_capacity_is_left_by_then() -> None:
    def lost(devices: DeviceView, *evictions: Eviction) -> str:
        live = {"uid-r": running("r")}
        seen = ClusterView(Sources(), Reading(()), (), (), snapshot(), live, devices=devices)
        return device_lost(decision(*evictions), seen)

    more = claim("other", "2049Mi", ["r"])
    assert lost(view(*BARE, claim("other", "2Gi", ["r"]))) == ""
    assert lost(view(*BARE, more)) == "device gpu-0 of pool n1 has too little capacity left by now"
    assert lost(view(*BARE, more), Eviction("default", "r", "uid-r", "n1", 1)) == ""


def test_a_victim_with_a_share_of_a_planned_device_is_needed() -> None:
    seen = view(claim("other", "4Gi", ["r"]))
    cluster = ClusterView(Sources(), Reading(()), (), (), snapshot(), {}, devices=seen)
    assert frees_devices(decision(Eviction("default", "r", "uid-r", "n1", 1)), cluster)
    assert not frees_devices(decision(Eviction("default", "x", "uid-x", "n1", 1)), cluster)
