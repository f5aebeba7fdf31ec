"""Which step about devices is due, by the claims and rules of the cluster: the table of decision 45.

n1, n2: two devices each. The gang `llm`: pods a and b, each with a claim, planned on n1 and n2.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import msgspec
import pytest
from protocol_scenes import PLAN_ID, gang, pod, record, situation, snapshot

from cluster.devices.allocation import AllocatedDevice, ClaimAllocation, DeviceId
from cluster.devices.holdings import DeviceView
from cluster.devices.partitions import Partitions
from controller.release.devices import (
    Wanted,
    allocation_status,
    device_plan,
    in_flight,
    taking_rule,
    wanting,
    yielding_rule,
)
from controller.release.next_step import (
    AwaitClaims,
    AwaitDevices,
    Cause,
    Evict,
    GiveUp,
    Hold,
    NeedPlan,
    Release,
    Step,
    Taint,
    Untaint,
    Yield,
    next_step,
)
from controller.release.records import PlanRecord, claims_entry, record_from, successors_patch
from kube.devices import DeviceClass, DeviceClassSpec, DeviceTaintRule, ResourceClaim, ResourceSlice
from kube.keys import DEVICES_TAKEN, PLAN, SYSTEM_NAMESPACE
from kube.objects import Container, ObjectMeta, Pod, PodResourceClaimStatus, ResourceRequirements
from kube.placeholders import HELD_FOR, PLACEHOLDER, SEAT, seat_uid

DRIVER = "gpu.example.com"
NODES = {"a": "n1", "b": "n2"}
POOLS = ((DRIVER, "n1"), (DRIVER, "n2"))


def device(pool: str, number: int = 0) -> DeviceId:
    return DeviceId(DRIVER, pool, f"gpu-{number}")


def member(name: str, *, gated: bool = True, claim: bool = True) -> Pod:
    """A nominated member; its claim has been created from a template unless `claim` is False."""
    found = pod(name, nominated=NODES[name], gated=gated)
    status = (PodResourceClaimStatus(name="gpu", resource_claim_name=f"{name}-gpu"),) if claim else ()
    spec = msgspec.structs.replace(found.spec, resource_claims=({"name": "gpu", "resourceClaimTemplateName": "one"},))
    return msgspec.structs.replace(
        found, spec=spec, status=msgspec.structs.replace(found.status, resource_claim_statuses=status)
    )


def claim(
    name: str, at: DeviceId | None = None, pods: Iterable[str] = (), *, ours: bool = False, **more: object
) -> ResourceClaim:
    """A claim: without devices, or with one and reserved for pods."""
    results = [{"request": "gpu", **at._asdict()}] if at is not None else []
    reserved = [{"resource": "pods", "name": each, "uid": f"uid-{each}"} for each in pods]
    annotations = {PLAN: PLAN_ID} if ours else {}
    meta = {"name": name, "namespace": "default", "uid": f"uid-claim-{name}", "annotations": annotations, **more}
    exactly = {"deviceClassName": "gpu", "tolerations": [{"key": "old", "operator": "Exists"}]}
    return msgspec.convert(
        {
            "metadata": meta,
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}], "config": [{"opaque": {"x": 1}}]}},
            "status": {"reservedFor": reserved, **({"allocation": {"devices": {"results": results}}} if at else {})},
        },
        ResourceClaim,
    )


def held(name: str) -> ResourceClaim:
    """The claim of a member as the plan wants it."""
    return claim(f"{name}-gpu", device(NODES[name]), [name], ours=True)


def rule(manifest: Mapping[str, object]) -> DeviceTaintRule:
    return msgspec.convert(manifest, DeviceTaintRule)


RULES = tuple(rule(taking_rule(PLAN_ID, pool)) for pool in POOLS)
BARE = claim("a-gpu"), claim("b-gpu")
HELD = held("a"), held("b")


def plan(victims: Iterable[tuple[str, str]] = ()) -> PlanRecord:
    claims = tuple(
        ClaimAllocation("default", "", at, (AllocatedDevice("gpu", device(at)),), (name,), "gpu")
        for name, at in NODES.items()
    )
    return replace(record(NODES.items(), list(victims)), claims=claims)


def view(claims: Iterable[ResourceClaim], rules: Iterable[DeviceTaintRule] = (), *, taints: bool = True) -> DeviceView:
    return DeviceView(tuple(claims), tuple(rules), known=True, taints=taints)


def step(devices: DeviceView, *others: Pod, of: PlanRecord | None = None, **how: bool) -> Step:
    found = situation(gang(member("a", **how), member("b", **how)), of or plan(), *others)
    return next_step(replace(found, devices=devices))


def test_the_writes_of_a_plan_follow_from_claims_and_rules() -> None:
    """Each row is the cluster after a crash between two writes."""
    assert step(view(BARE)) == Taint(POOLS)
    assert step(view(BARE, RULES[:1])) == Taint(POOLS[1:])
    assert isinstance(step(view(BARE, RULES)), Hold)
    half = step(view((HELD[0], BARE[1]), RULES))
    assert isinstance(half, Hold)
    assert [each.allocation.node for each in half.claims] == ["n2"]
    untaint = step(view(HELD, RULES))
    assert isinstance(untaint, Untaint)
    assert untaint.rules == RULES
    assert isinstance(step(view(HELD, RULES[:1])), Untaint)
    assert isinstance(step(view(HELD)), Release)


def test_without_rules_the_devices_are_allocated_at_once() -> None:
    assert isinstance(step(view(BARE, taints=False)), Hold)


@pytest.mark.parametrize("devices", [view(BARE[:1]), DeviceView(), view(())])
def test_claims_that_are_missing_are_waited_for(devices: DeviceView) -> None:
    assert isinstance(step(devices), AwaitClaims)


def test_a_member_without_a_created_claim_is_waited_for() -> None:
    found = step(view(BARE), claim=False)
    assert isinstance(found, AwaitClaims)
    assert [each.text for each in found.missing] == [
        "the ResourceClaim gpu of pod a",
        "the ResourceClaim gpu of pod b",
    ]


def test_a_claim_with_the_devices_of_an_older_plan_is_given_up() -> None:
    older = claim("a-gpu", device("n1", 1), ["a"], ours=True)
    assert step(view((older, BARE[1]), RULES)) == GiveUp((older,))


def test_members_whose_devices_a_new_plan_swaps_give_them_up_first() -> None:
    swapped = claim("a-gpu", device("n2"), ["a"], ours=True), claim("b-gpu", device("n1"), ["b"], ours=True)
    assert step(view(swapped, RULES)) == GiveUp(swapped)


def test_pools_are_tainted_before_devices_that_the_plan_gives_to_other_members_are_given_up() -> None:
    """Otherwise a rival could get the device between the two writes."""
    swapped = claim("a-gpu", device("n2"), ["a"], ours=True), claim("b-gpu", device("n1"), ["b"], ours=True)
    assert step(view(swapped)) == Taint(POOLS)
    assert step(view(swapped, RULES[:1])) == Taint(POOLS[1:])
    left_out = claim("c-gpu", device("n3"), ["c"], ours=True)
    of = replace(gang(member("a"), member("b"), pod("c")), min_member=2)
    of = replace(of, pod_sets=(replace(of.pod_sets[0], min_count=2),))
    found = next_step(replace(situation(of, plan()), devices=view((*HELD, left_out))))
    assert found == GiveUp((left_out,)), "no claim of the plan waits for a device"


def test_a_gated_member_without_a_place_in_the_new_plan_gives_up_its_device() -> None:
    """Otherwise the device would be held for it for ever, or be refused to the members of the plan."""
    for at in (device("n2"), device("n3")):
        left_out = claim("c-gpu", at, ["c"], ours=True)
        of = replace(gang(member("a"), member("b"), pod("c")), min_member=2)
        of = replace(of, pod_sets=(replace(of.pod_sets[0], min_count=2),))
        found = next_step(replace(situation(of, plan()), devices=view((*BARE, left_out), RULES)))
        assert found == GiveUp((left_out,))


def test_a_device_that_a_running_pod_has_invalidates_the_plan() -> None:
    rival = claim("rival", device("n2"), ["r"])
    found = step(view((*BARE, rival)), pod("r", bound="n2", cpu="0"))
    assert isinstance(found, NeedPlan)
    assert found.cause is Cause.DEVICES_TAKEN
    assert found.message == "device gpu-0 of pool n2 is allocated to ResourceClaim default/rival"


@pytest.mark.parametrize(
    "owner",
    [
        pytest.param(pod("r", bound="n2", cpu="0", terminating=True), id="ends"),
        pytest.param(pod("r", priority=1), id="is gated and of lower priority"),
        pytest.param(None, id="is gone"),
    ],
)
def test_a_device_of_a_pod_that_gives_way_is_waited_for(owner: Pod | None) -> None:
    rival = claim("rival", device("n2"), ["r"])
    found = step(view((*BARE, rival), RULES), *([owner] if owner is not None else []))
    assert found == AwaitDevices(((device("n2"), rival),))


def test_a_gang_is_not_released_in_part_if_the_device_of_an_expected_pod_is_taken() -> None:
    awaited = seat_uid("w", "main", "b")
    found = member("b", claim=False)
    expected = msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, uid=awaited))
    made = pod("p-b", nominated="n2")
    marks = {**made.metadata.annotations, HELD_FOR: "default/b", SEAT: awaited}
    meta = msgspec.structs.replace(
        made.metadata, namespace=SYSTEM_NAMESPACE, labels={PLACEHOLDER: "true"}, annotations=marks
    )
    holder = msgspec.structs.replace(made, metadata=meta)
    planned = plan()
    planned = replace(planned, members=(planned.members[0], replace(planned.members[1], uid=awaited)))
    running, rival = pod("r", bound="n2", cpu="0"), claim("rival", device("n2"), ["r"])
    there = {each.metadata.uid: each for each in (member("a"), holder, running)}
    scene = situation(gang(member("a"), expected), planned, holder, running)
    scene = replace(scene, snapshot=snapshot(*there.values()), live=there, placeholders={awaited: holder})
    assert isinstance(next_step(replace(scene, devices=view((HELD[0],)))), Release)
    lost = next_step(replace(scene, devices=view((HELD[0], rival))))
    assert isinstance(lost, NeedPlan)
    assert lost.cause is Cause.DEVICES_TAKEN


def test_an_equal_gang_that_holds_the_device_keeps_it() -> None:
    rival = claim("rival", device("n2"), ["r"])
    assert isinstance(step(view((*BARE, rival), RULES), pod("r", priority=10)), NeedPlan)


def test_pools_are_tainted_before_victims_are_evicted_for_their_devices() -> None:
    rival = claim("low-gpu", device("n2"), ["low"])
    low = pod("low", bound="n2", priority=1)
    planned = plan([("low", "n2")])
    assert step(view((*BARE, rival)), low, of=planned) == Taint(POOLS)
    assert isinstance(step(view((*BARE, rival), RULES), low, of=planned), Evict)


def test_a_doubled_device_is_yielded() -> None:
    rival = claim("rival", device("n2"), ["r"])
    found = step(view((*HELD, rival)), pod("r", bound="n2", cpu="0"))
    assert isinstance(found, Yield)
    assert found.doubled == (device("n2"),)


def partitioned(memory: int = 8, *, generation: int = 1) -> Partitions:
    """n2: gpu-0 is a whole device that consumes 8 of its memory, gpu-1 and gpu-2 are partitions that consume 4 each."""
    sizes = {"gpu-0": 8, "gpu-1": 4, "gpu-2": 4}
    devices = [
        {"name": name, "consumesCounters": [{"counterSet": "gpu", "counters": {"memory": {"value": str(size)}}}]}
        for name, size in sizes.items()
    ]
    counters = [{"name": "gpu", "counters": {"memory": {"value": str(memory)}}}]
    pool = {"name": "n2", "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "n2", "pool": pool, "devices": devices, "sharedCounters": counters}
    return Partitions((msgspec.convert({"spec": spec}, ResourceSlice),))


def test_a_partition_that_a_running_pod_has_invalidates_a_plan_with_the_whole_device() -> None:
    rival, running = claim("rival", device("n2", 1), ["r"]), pod("r", bound="n2", cpu="0")
    found = step(replace(view((*BARE, rival), RULES), partitions=partitioned()), running)
    assert isinstance(found, NeedPlan)
    assert found.cause is Cause.DEVICES_TAKEN
    expected = "device gpu-0 of pool n2 shares counters with a device that is allocated to ResourceClaim default/rival"
    assert found.message == expected
    assert isinstance(step(replace(view((*BARE, rival), RULES), partitions=partitioned(12)), running), Hold)
    assert isinstance(step(replace(view((*HELD, rival)), partitions=partitioned(12)), running), Release)


def test_a_whole_device_is_not_allocated_before_the_pod_of_its_partition_has_ended() -> None:
    rival, ending = claim("rival", device("n2", 1), ["r"]), pod("r", bound="n2", cpu="0", terminating=True)
    found = step(replace(view((*BARE, rival), RULES), partitions=partitioned()), ending)
    assert found == AwaitDevices(((device("n2"), rival),))


def test_only_the_partitions_that_stay_count_against_a_plan() -> None:
    """Of memory 12, a running pod keeps 4, a terminating pod frees 4, and the plan takes 8."""
    stays, goes = claim("stays", device("n2", 1), ["r"]), claim("goes", device("n2", 2), ["t"])
    pods = pod("r", bound="n2", cpu="0"), pod("t", bound="n2", cpu="0", terminating=True)
    found = step(replace(view((*BARE, stays, goes), RULES), partitions=partitioned(12)), *pods)
    assert isinstance(found, AwaitDevices)


def test_a_partition_beside_a_held_whole_device_is_a_double() -> None:
    rival = claim("rival", device("n2", 1), ["r"])
    found = step(replace(view((*HELD, rival)), partitions=partitioned()), pod("r", bound="n2", cpu="0"))
    assert isinstance(found, Yield)
    assert found.doubled == (device("n2"),)


def test_only_slices_of_the_newest_generation_count() -> None:
    both = Partitions((*partitioned(8).slices, *partitioned(16, generation=2).slices))
    assert [int(each) for each in both.limits.values()] == [16]
    assert not list(both.overdrawn([device("n2", number) for number in range(3)]))
    assert list(partitioned().overdrawn([device("n2", 0), device("n2", 1)])) == list(both.limits)


@pytest.mark.parametrize(("mark", "due"), [({"adminAccess": True}, Release), ({"shareID": "1"}, Yield)])
def test_a_share_of_a_held_device_is_a_double_and_its_administration_is_not(
    mark: Mapping[str, object], due: type[Step]
) -> None:
    rival = claim("rival", device("n2"), ["r"])
    (result,) = msgspec.to_builtins(rival)["status"]["allocation"]["devices"]["results"]
    status = {"allocation": {"devices": {"results": [{**result, **mark}]}}}
    seen = msgspec.convert({**msgspec.to_builtins(rival), "status": status}, ResourceClaim)
    found = step(view((*HELD, seen)), pod("r", bound="n2", cpu="0"))
    assert isinstance(found, due)


def test_a_claim_of_a_released_member_is_the_schedulers() -> None:
    """Its reservation may be gone already; nothing is written to it."""
    of = gang(member("a", gated=False), member("b"))
    devices = device_plan(of, plan(), view((BARE[0], HELD[1])))
    assert [each.allocation.node for each in devices.claims] == ["n2"]


def test_an_allocation_has_what_the_scheduler_would_write() -> None:
    devices = device_plan(gang(member("a"), member("b")), plan(), view(BARE))
    assert allocation_status(devices.claims[0], devices.view, "now") == {
        "reservedFor": [{"resource": "pods", "name": "a", "uid": "uid-a"}],
        "allocation": {
            "devices": {
                "results": [
                    {
                        "request": "gpu",
                        "driver": DRIVER,
                        "pool": "n1",
                        "device": "gpu-0",
                        "tolerations": [{"key": "old", "operator": "Exists"}],
                    }
                ],
                "config": [{"source": "FromClaim", "opaque": {"x": 1}}],
            },
            "nodeSelector": {
                "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
            },
            "allocationTimestamp": "now",
        },
    }


def test_a_claim_that_lacks_only_its_reservation_keeps_its_allocation() -> None:
    half = claim("a-gpu", device("n1"), (), ours=True)
    devices = device_plan(gang(member("a"), member("b")), plan(), view((half, BARE[1])))
    status = allocation_status(devices.claims[0], devices.view, "now")
    assert status == {"reservedFor": [{"resource": "pods", "name": "a", "uid": "uid-a"}]}


def test_a_claim_that_the_scheduler_has_allocated_to_other_pods_needs_no_write() -> None:
    theirs = claim("a-gpu", device("n1"), ["other"])
    devices = device_plan(gang(member("a"), member("b")), plan(), view((theirs, HELD[1])))
    assert devices.unheld == ()


def versioned(number: int, version: int) -> DeviceTaintRule:
    """The rule for a pool, as written at this version."""
    found = RULES[number]
    return msgspec.structs.replace(
        found, metadata=msgspec.structs.replace(found.metadata, resource_version=str(version))
    )


def wanted_by(devices: DeviceView) -> Wanted | None:
    """The probe for the rules of the plan."""
    return wanting(device_plan(gang(member("a"), member("b")), plan(), devices))


def test_the_probe_wants_a_free_device_of_the_pool_that_was_tainted_last() -> None:
    """The rules are written side by side, so the last one in the order of pools need not be the newest."""
    exactly = {"deviceClassName": "gpu", "selectors": []}
    spec = {"devices": {"requests": [{"name": "probe", "exactly": exactly}]}}
    rules = versioned(0, 7), versioned(1, 5)
    assert wanted_by(view(BARE, rules)) == Wanted(7, "n1", spec, device("n1"))
    # A device that its claim has already would be refused to the probe whatever the scheduler has seen.
    assert wanted_by(view((HELD[0], BARE[1]), rules)) == Wanted(5, "n2", spec, device("n2"))
    assert wanted_by(view(HELD, rules)) == Wanted(7, "n1", spec, None)
    assert wanted_by(view(BARE)) is None


def test_the_probe_tolerates_all_taints_of_its_device_except_those_of_the_plan() -> None:
    """If it were refused for another taint, this would not show that the scheduler has seen the plan's own rule."""
    of_user = {"metadata": {"name": "user"}, "spec": {"deviceSelector": {"driver": DRIVER}, "taint": {"key": "u"}}}
    elsewhere = {"metadata": {"name": "x"}, "spec": {"deviceSelector": {"driver": "other"}, "taint": {"key": "x"}}}
    of_all = {"metadata": {"name": "all"}, "spec": {"deviceSelector": {}, "taint": {"key": "all", "value": "1"}}}
    of_none = {"metadata": {"name": "none"}, "spec": {"taint": {"key": "none"}}}
    other_plan = taking_rule("plan-2", POOLS[1])
    rules = (*RULES, *map(rule, (of_user, elsewhere, of_all, of_none, other_plan)))
    devices = [{"name": "gpu-0", "taints": [{"key": "broken", "effect": "NoSchedule"}]}, {"name": "gpu-1"}]
    spec = {"driver": DRIVER, "nodeName": "n2", "pool": {"name": "n2"}, "devices": devices}
    slices = Partitions((msgspec.convert({"spec": spec}, ResourceSlice),))
    found = wanted_by(replace(view((HELD[0], BARE[1]), rules), partitions=slices))
    assert found is not None
    (request,) = found.spec["devices"]["requests"]
    assert request["exactly"]["tolerations"] == [
        {"key": "u", "operator": "Equal", "value": ""},
        {"key": "all", "operator": "Equal", "value": "1"},
        {"key": DEVICES_TAKEN, "operator": "Equal", "value": other_plan["spec"]["taint"]["value"]},
        {"key": "broken", "operator": "Equal", "value": ""},
    ]
    assert other_plan["spec"]["taint"]["value"] != taking_rule(PLAN_ID, POOLS[1])["spec"]["taint"]["value"]


def test_a_pod_that_the_scheduler_is_about_to_bind_is_in_flight() -> None:
    going = member("a", gated=False)
    assert [*in_flight(view(BARE), [going], {"n1"})] == [going]
    assert [*in_flight(view(BARE), [going], {"n2"})] == []
    assert [*in_flight(view((HELD[0],)), [going], {"n1"})] == []
    assert [*in_flight(view(BARE), [member("a")], {"n1"})] == []


def test_a_pod_whose_devices_come_from_an_extended_resource_is_in_flight() -> None:
    """The scheduler has chosen its devices, too, but creates their claim only while it binds the pod."""
    plain = pod("a", nominated="n1", gated=False)
    container = Container(name="main", resources=ResourceRequirements(limits={"example.com/gpu": "1"}))
    going = msgspec.structs.replace(plain, spec=msgspec.structs.replace(plain.spec, containers=(container,)))
    gpus = DeviceClass(metadata=ObjectMeta(name="gpu"), spec=DeviceClassSpec(extended_resource_name="example.com/gpu"))
    bare = replace(view(()), classes={"gpu": gpus})
    assert [*in_flight(bare, [going], {"n1"})] == [going]
    assert [*in_flight(bare, [going], {"n2"})] == []
    assert [*in_flight(bare, [plain], {"n1"})] == []
    of_scheduler = claim("a-extended-resources-x", device("n1"), ["a"])
    assert [*in_flight(replace(bare, claims=(of_scheduler,)), [going], {"n1"})] == []


def test_rules_select_a_pool_or_one_device() -> None:
    assert taking_rule("p", POOLS[0])["spec"]["deviceSelector"] == {"driver": DRIVER, "pool": "n1"}
    selector = {"driver": DRIVER, "pool": "n1", "device": "gpu-0"}
    assert yielding_rule("p", device("n1"))["spec"]["deviceSelector"] == selector
    assert taking_rule("p", POOLS[0]) == taking_rule("p", POOLS[0])
    assert taking_rule("p", POOLS[0])["metadata"]["name"] != taking_rule("q", POOLS[0])["metadata"]["name"]


def test_parameters_of_a_class_apply_only_to_the_requests_for_the_class() -> None:
    """Without the names of the requests, the driver would apply the parameters to all devices of the claim."""
    requests = [
        {"name": "gpu", "exactly": {"deviceClassName": "gpu"}},
        {"name": "more", "exactly": {"deviceClassName": "gpu"}},
        {"name": "nic", "firstAvailable": [{"name": "fast", "deviceClassName": "fast"}, {"name": "slow"}]},
    ]
    of_claim = [
        {"requests": ["gpu", "more", "nic"], "opaque": {"of": "all"}},
        {"requests": ["nic"], "opaque": {"of": "nic"}},
        {"requests": ["nic/slow"], "opaque": {"of": "slow"}},
    ]
    spec = {"devices": {"requests": requests, "config": of_claim}}
    several = msgspec.convert({**msgspec.to_builtins(BARE[0]), "spec": spec}, ResourceClaim)
    places = ("gpu", 0), ("more", 1), ("nic/fast", 2)
    got = tuple(AllocatedDevice(request, device("n1", number)) for request, number in places)
    first = plan().claims[0]
    parameters = {name: ({"opaque": {"of": f"class {name}"}},) for name in ("gpu", "fast")}
    classes = {name: DeviceClass(spec=DeviceClassSpec(config=config)) for name, config in parameters.items()}
    devices = device_plan(
        gang(member("a"), member("b")),
        replace(plan(), claims=(replace(first, devices=got),)),
        replace(view((several,)), classes=classes),
    )
    status = allocation_status(devices.claims[0], devices.view, "now")
    assert status["allocation"]["devices"]["config"] == [
        {"source": "FromClass", "requests": ["gpu", "more"], "opaque": {"of": "class gpu"}},
        {"source": "FromClass", "requests": ["nic/fast"], "opaque": {"of": "class fast"}},
        {"source": "FromClaim", "opaque": {"of": "all"}},
        {"source": "FromClaim", "requests": ["nic"], "opaque": {"of": "nic"}},
    ]


def test_a_record_is_read_back_from_the_status() -> None:
    planned = plan()
    entries = [
        {"uid": each.uid, "namespace": each.namespace, "pod": each.name, "node": each.node} for each in planned.members
    ]
    status = {"planId": PLAN_ID, "assignments": entries, "claims": claims_entry(planned.claims)}
    assert record_from(status) == planned
    successor = ObjectMeta(name="a2", namespace="default", uid="uid-a2")
    patch = successors_patch(status, {"uid-a": successor})
    assert [each["pods"] for each in patch["claims"]] == [["a2"], ["b"]]
