"""Gangs whose pods share devices by their capacity (consumable capacity).

The cluster is that of `test_devices`, with devices on n3 alone.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import device_scenes as devices
import msgspec
import pytest
import scenes
from test_devices import cluster, decided, got, members, one_node

from cluster.devices.allocation import AllocatedDevice
from cluster.devices.capacity import amounts_asked
from cluster.devices.inventory import inventory_of
from kube.devices import CapacityRequirements, ResourceSlice
from planning.decision import Decision, Outcome
from planning.devices import by_device
from planning.devices.by_search import Profiles
from planning.devices.demands import Asked, Kind, Request
from planning.devices.node_search import NodeSearch, alike_contents, node_devices
from planning.devices.verifying import PlacedPod, faults
from planning.messages.solve_report import solve_report


def shared(number: int, memory: str = "8Gi", **more: Any) -> scenes.Manifest:
    """A device that several claims share, of which a request consumes whole Gi, and 1Gi if it does not say."""
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
    capacity = {"memory": {"value": memory, "requestPolicy": policy}}
    return {**devices.device(f"gpu-{number}", **more), "allowMultipleAllocations": True, "capacity": capacity}


def part(
    memory: str = "", *more: scenes.Manifest, count: int = 1, name: str = "part", **fields: Any
) -> scenes.Manifest:
    """A template with a request for a part of the memory of devices. `more`: further requests."""
    capacity: dict[str, Any] = {"capacity": {"requests": {"memory": memory}}} if memory else {}
    return devices.template(devices.request("gpu", count, **capacity), *more, name=name, **fields)


def parts_of(count: int, **more: Any) -> list[scenes.Manifest]:
    """Pods of the gang with a claim of the template `part` each."""
    return members(count, **devices.of_template("part"), **more)


def consumption(decision: Decision) -> list[str]:
    """The devices of the members with the memory that they consume."""
    every = (each for assignment in decision.assignments for claim in assignment.devices for each in claim.devices)
    return [f"{each.device.device} {dict(each.consumed)['memory']}" for each in every]


def test_members_share_devices_by_their_capacity() -> None:
    """3Gi of 8Gi each: two members on a device, so five of six on three devices, and not seven."""
    parts = [*one_node([shared(0), shared(1), shared(2)]), part("2500Mi")]
    decision = decided(parts, scenes.gang(minMember=5), parts_of(5))
    assert consumption(decision) == ["gpu-0 3Gi", "gpu-0 3Gi", "gpu-1 3Gi", "gpu-1 3Gi", "gpu-2 3Gi"]
    assert decision.proof == "Optimal"
    refused = decided(parts, scenes.gang(minMember=7), parts_of(7))
    assert refused.proof == "Infeasible"
    assert f"Insufficient devices of {devices.DRIVER} with 2500Mi of memory" in refused.message
    assert "needed" not in refused.message
    report = solve_report([decision])["gangs"][0]["assignments"][0]["devices"]
    assert report[0]["consumedCapacity"] == {"memory": "3Gi"}


def test_what_other_claims_consume_is_not_free_and_evictions_free_it() -> None:
    one, claim = devices.user("one", "n3", "gpu-0")
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    result |= {"shareID": "7f2b8c1e-0000-4000-8000-000000000000", "consumedCapacity": {"memory": "6Gi"}}
    parts = [*one_node([shared(0)]), part("1Gi"), one, claim]
    assert consumption(decided(parts, scenes.gang(minMember=2), parts_of(2))) == ["gpu-0 1Gi"] * 2
    assert decided(parts, scenes.gang(minMember=3), parts_of(3)).proof == "Infeasible"
    evicting = decided(parts, scenes.gang(minMember=3), parts_of(3, priority=9))
    assert [each.name for each in evicting.evictions] == ["one"]
    assert consumption(evicting) == ["gpu-0 1Gi"] * 3
    assert evicting.proof == "Optimal"


def test_one_claim_may_get_a_device_for_two_requests_but_not_twice_for_one() -> None:
    second = devices.request("more", 1, capacity={"requests": {"memory": "2Gi"}})
    decision = decided(one_node([shared(0)]), part("2Gi", second), scenes.gang(minMember=1), parts_of(1))
    assert consumption(decision) == ["gpu-0 2Gi", "gpu-0 2Gi"]
    twice = decided(one_node([shared(0)]), part("2Gi", count=2), scenes.gang(minMember=1), parts_of(1))
    assert twice.proof == "Infeasible"
    apart = [{"distinctAttribute": f"{devices.DRIVER}/card"}]
    two = one_node([shared(0, attributes={"card": 0}), shared(1, attributes={"card": 1})])
    distinct = decided(two, part("2Gi", second, constraints=apart), scenes.gang(minMember=1), parts_of(1))
    assert consumption(distinct) == ["gpu-0 2Gi", "gpu-1 2Gi"]


def test_members_with_different_parts_share_devices_exactly() -> None:
    """A leader with 4Gi and workers with 1Gi: on one device of 8Gi four workers, and five on none."""
    parts = [*one_node([shared(0)]), part("4Gi", name="large"), part("1Gi")]
    leader = scenes.pod("llm-9", gang="llm", cpu=1, priority=0, **devices.of_template("large"))
    decision = decided(parts, scenes.gang(minMember=5), leader, parts_of(4))
    assert sorted(consumption(decision)) == ["gpu-0 1Gi"] * 4 + ["gpu-0 4Gi"]
    assert decided(parts, scenes.gang(minMember=6), leader, parts_of(5)).proof == "Infeasible"


def test_many_members_share_one_device() -> None:
    """More members on a node than the interpreter's usual stack is deep."""
    node = scenes.node("n9", {scenes.label("rack"): "r9"}, {"cpu": "8", "pods": "500"})
    slices = devices.resource_slice("n9", [shared(0, "1Ti")])
    pods = parts_of(400, cpu="1m")
    decision = decided(cluster(n1=0, n2=0, n3=0, n4=0), node, slices, part(), scenes.gang(minMember=400), pods)
    assert consumption(decision) == ["gpu-0 1Gi"] * 400


def test_a_request_for_capacity_takes_a_device_that_is_not_shared_as_a_whole() -> None:
    every = [devices.device("gpu-0", {"memory": "4Gi"}), devices.device("gpu-1", {"memory": "8Gi"})]
    decision = decided(one_node(every), part("6Gi"), scenes.gang(minMember=1), parts_of(1))
    assert got(decision) == ["n3/gpu-1"]
    assert decided(one_node(every), part("6Gi"), scenes.gang(minMember=2), parts_of(2)).proof == "Infeasible"


def test_a_shared_device_consumes_its_counters_once() -> None:
    consumes = [{"counterSet": "card", "counters": {"slices": {"value": "1"}}}]
    every = [shared(number, consumesCounters=consumes) for number in range(3)]
    slices = devices.resource_slice(
        "n3", every, sharedCounters=[{"name": "card", "counters": {"slices": {"value": "2"}}}]
    )
    parts = [*cluster(n1=0, n2=0, n3=0, n4=0), slices, part("4Gi")]
    decision = decided(parts, scenes.gang(minMember=4), parts_of(4))
    assert consumption(decision) == ["gpu-0 4Gi", "gpu-0 4Gi", "gpu-1 4Gi", "gpu-1 4Gi"]
    assert decided(parts, scenes.gang(minMember=5), parts_of(5)).proof == "Infeasible"


def test_an_observed_device_that_several_claims_share_is_not_planned() -> None:
    observing = devices.template(devices.request("gpu", 1, adminAccess=True), name="part")
    decision = decided(one_node([shared(0)]), observing, scenes.gang(minMember=1), parts_of(1))
    assert decision.outcome is Outcome.WAITING
    assert f"adminAccess to devices that several claims share ({devices.DRIVER})" in decision.message


@pytest.mark.parametrize(("count", "proof"), [(208, "Optimal"), (209, "Infeasible")])
def test_eight_devices_with_many_shares_each_are_counted_exactly(count: int, proof: str) -> None:
    """3Gi of 80Gi: 26 members on each device. A search over all distributions of the members would not end."""
    node = scenes.node("n9", {scenes.label("rack"): "r9"}, {"cpu": "8", "pods": "500"})
    slices = devices.resource_slice("n9", [shared(number, "80Gi") for number in range(8)])
    pods = parts_of(count, cpu="1m")
    decision = decided(cluster(n1=0, n2=0, n3=0, n4=0), node, slices, part("3Gi"), scenes.gang(minMember=count), pods)
    assert decision.proof == proof


@pytest.mark.parametrize(("count", "proof"), [(30, "Optimal"), (31, "Infeasible")])
def test_members_with_two_requests_on_many_devices_are_counted_exactly(count: int, proof: str) -> None:
    """Each member needs shares of two devices: 20 on each of three devices are 30 members."""
    pods = parts_of(count, cpu="1m")
    parts = [*one_node([shared(number, "80Gi") for number in range(3)]), part("4Gi", count=2)]
    assert decided(parts, scenes.gang(minMember=count), pods).proof == proof


@pytest.mark.parametrize(("workers", "proof"), [(18, "Optimal"), (19, "Infeasible")])
def test_a_large_and_many_small_shares_on_several_devices_are_counted_exactly(workers: int, proof: str) -> None:
    """A leader with 30Gi leaves 50Gi of one of three devices: 4 workers with 11Gi there, and 7 on each other device."""
    leader = scenes.pod("llm-99", gang="llm", cpu="1m", priority=0, **devices.of_template("large"))
    parts = [*one_node([shared(number, "80Gi") for number in range(3)]), part("30Gi", name="large"), part("11Gi")]
    pods = [*parts_of(workers, cpu="1m"), leader]
    assert decided(parts, scenes.gang(minMember=workers + 1), pods).proof == proof


def test_the_sums_of_devices_are_the_numbers_that_a_search_finds() -> None:
    """Random nodes with shared and other devices, for members with two different amounts."""
    draw = random.Random(40)  # noqa: S311 -- instances for tests
    for _ in range(60):
        every = [
            shared(number, f"{draw.randint(1, 6)}Gi") if draw.random() < 0.7 else devices.device(f"gpu-{number}")
            for number in range(draw.randint(1, 3))
        ]
        inventory = inventory_of([msgspec.convert(devices.resource_slice("n1", every), ResourceSlice)])
        sizes = draw.sample(range(1, 5), 2)
        kinds = [kind_with(f"{size}Gi") for size in sizes]
        profiles = [(Asked(((Request("gpu", kind, 1),),)),) for kind in kinds]
        free = ~(inventory.content < 0)
        used = {0: {"memory": Decimal(2**30)}} if draw.random() < 0.5 else {}
        alike = alike_contents([Asked(((Request("gpu", kind, 1),),)) for kind in kinds], inventory)
        node = node_devices("n1", inventory, free, used, alike)
        found = by_device.served(kinds, (4, 5), node, inventory)
        search = NodeSearch(inventory, node)
        expected: set[tuple[int, ...]] = {
            (some, more)
            for some in range(5)
            for more in range(6)
            if search.choose([*profiles[0] * some, *profiles[1] * more]) is not None
        }
        assert found is not None
        assert set(found) == expected
        by_profiles = Profiles(tuple(profiles), (4, 5), (1, 1), ((1, 1),), inventory)
        assert by_profiles.served(node) == expected


def checked(change: Callable[[AllocatedDevice], AllocatedDevice], *others: scenes.Manifest) -> list[str]:
    """The faults of the plan for two pods with 3Gi of gpu-0 each, if every device of a claim is changed."""
    small = devices.device("gpu-1", {"memory": "8Gi"})
    run = scenes.solved(
        scenes.topology(["rack"]),
        one_node([shared(0), small]),
        part("2500Mi"),
        scenes.gang(minMember=2),
        parts_of(2),
        others,
    )
    (decision,) = run.decisions
    assert run.snapshot.devices is not None
    placed = [PlacedPod(each.member.pod, each.node, each.devices) for each in decision.assignments]
    wrong = [
        each._replace(
            allocations=tuple(replace(one, devices=tuple(map(change, one.devices))) for one in each.allocations)
        )
        for each in placed
    ]
    return list(faults(wrong, frozenset(), run.snapshot.devices))


def test_the_check_accepts_shares_as_they_are_planned() -> None:
    assert checked(lambda each: each) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda each: replace(each, shared=False, consumed=()), "gpu-0 is not shared, in conflict with its slice"),
        (lambda each: replace(each, consumed=()), "consumes other capacities than the device has"),
        (lambda each: replace(each, consumed=(("memory", "2500Mi"),)), "is not what the request consumes"),
        (lambda each: replace(each, consumed=(("memory", "4Gi"),)), "is not what the request consumes"),
        (lambda each: replace(each, consumed=(("memory", "5Gi"),)), "memory of gpu-0 in pool n3 is overdrawn"),
        (
            lambda each: replace(each, device=each.device._replace(device="gpu-1"), shared=False, consumed=()),
            "gpu-1 of n3 is given 2 times",
        ),
    ],
)
def test_the_check_finds_wrong_shares(change: Callable[[AllocatedDevice], AllocatedDevice], fault: str) -> None:
    found = checked(change)
    assert any(fault in each for each in found), found


def test_the_check_counts_what_other_claims_consume() -> None:
    """gpu-0 of 8Gi has 3Gi left; so no share of 3Gi can be beside another one."""
    one, claim = devices.user("one", "n3", "gpu-0", priority=0)
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    result |= {"shareID": "7f2b8c1e-0000-4000-8000-000000000000", "consumedCapacity": {"memory": "5Gi"}}

    def on_the_shared_device(each: AllocatedDevice) -> AllocatedDevice:
        shares = (("memory", "3Gi"),)
        return replace(each, device=each.device._replace(device="gpu-0"), shared=True, consumed=shares)

    assert checked(on_the_shared_device, one, claim) == ["memory of gpu-0 in pool n3 is overdrawn"]


def kind_with(memory: str) -> Kind:
    """All devices with so much memory, or so much left of it."""
    capacity = amounts_asked(CapacityRequirements({"memory": memory}))
    return Kind((f'device.driver == "{devices.DRIVER}"',), (), "", capacity)
