"""Gangs whose pods claim devices (dynamic resource allocation): the devices are planned with the nodes.

r1: n1 (1 device) n2 (2)        r2: n3 (3) n4 (2)
"""

from typing import Any

import device_scenes as devices
import scenes

from planning.decision import Decision, Outcome
from planning.messages.solve_report import solve_report

RACKS = """
r1: n1 n2
r2: n3 n4
"""


def cluster(**by_node: Any) -> list[scenes.Manifest]:
    """The nodes, the class, a template of one device, and the devices of the nodes: their number, or themselves."""
    found = {"n1": 1, "n2": 2, "n3": 3, "n4": 2, **by_node}
    slices = [devices.resource_slice(node, each) for node, each in found.items() if each]
    return [*scenes.nodes(RACKS, ["rack"]), devices.device_class(), devices.template(), *slices]


def decided(*parts: Any, **options: Any) -> Decision:
    """The decision for the one gang in these manifests."""
    run = scenes.solved(scenes.topology(["rack"]), *parts, **options)
    assert not run.mistakes, run.mistakes
    (decision,) = run.decisions
    return decision


def members(count: int, **more: Any) -> list[scenes.Manifest]:
    """Pods of the gang with a claim of the template each."""
    return scenes.members(count, **{"cpu": 1, **devices.of_template(), **more})


def got(decision: Decision) -> list[str]:
    """The devices of the members, as `node/device`."""
    return [
        " ".join(f"{each.device.pool}/{each.device.device}" for claim in assignment.devices for each in claim.devices)
        for assignment in decision.assignments
    ]


def test_devices_decide_the_domain_and_each_member_gets_its_own() -> None:
    decision = decided(cluster(), scenes.gang(minMember=4, required="rack"), members(4))
    assert decision.message == "4 pods fit in r2: n3..4, proven optimal"
    assert got(decision) == ["n3/gpu-0", "n3/gpu-1", "n3/gpu-2", "n4/gpu-0"]
    report = solve_report([decision])["gangs"][0]["assignments"][0]["devices"]
    assert report == [
        {"claim": "llm-0-gpu", "request": "gpu", "driver": devices.DRIVER, "pool": "n3", "device": "gpu-0"}
    ]


def test_a_gang_short_of_devices_is_refused_with_their_numbers() -> None:
    decision = decided(
        cluster(), scenes.gang(minMember=5, required="rack"), members(5), devices.user("other", "n3", "gpu-1")
    )
    assert decision.outcome is Outcome.UNPLACEABLE
    assert decision.proof == "Infeasible"
    assert f"devices of {devices.DRIVER}: 5 in r2, 4 of them free, 5 needed" in decision.message
    nearest = solve_report([decision])["gangs"][0]["explanation"]["nearest"]
    assert [each["devices"] for each in nearest] == [
        [{"devices": f"devices of {devices.DRIVER}", "matching": 5, "free": 4, "needed": 5}],
        [{"devices": f"devices of {devices.DRIVER}", "matching": 3, "free": 3, "needed": 5}],
    ]


def test_devices_of_bound_pods_are_taken() -> None:
    decision = decided(cluster(), scenes.gang(minMember=2), members(2), devices.user("other", "n3", "gpu-0", "gpu-2"))
    assert got(decision) == ["n2/gpu-0", "n2/gpu-1"]


def test_evicting_a_pod_frees_its_devices() -> None:
    small = cluster(n1=0, n2=0, n3=2, n4=0)
    others = [*devices.user("one", "n3", "gpu-0"), *devices.user("two", "n3", "gpu-1")]
    decision = decided(small, scenes.gang(minMember=2), members(2, priority=9), others)
    assert [each.name for each in decision.evictions] == ["one", "two"]
    assert got(decision) == ["n3/gpu-0", "n3/gpu-1"]
    assert decision.proof == "Optimal"
    alone = decided(small, scenes.gang(minMember=1), members(1, priority=9), others[:2])
    assert not alone.evictions
    assert got(alone) == ["n3/gpu-1"]


def test_overlapping_selectors_share_devices_exactly() -> None:
    """Two of the three devices are large: 1 large one and 2 of the class fit, but not 2 and 2."""
    mixed = [devices.device(f"gpu-{i}", attributes={"size": "small" if i == 0 else "large"}) for i in range(3)]
    parts = [*cluster(n1=0, n2=0, n3=mixed, n4=0)]
    large = devices.template(
        devices.request("gpu", 1, devices.DRIVER, f'device.attributes["{devices.DRIVER}"].size == "large"'),
        name="large",
    )
    first = scenes.pod("llm-0", gang="llm", cpu=1, priority=0, **devices.of_template("large"))
    rest = [scenes.pod(f"llm-{i}", gang="llm", cpu=1, priority=0, **devices.of_template()) for i in (1, 2, 3)]
    fitting = decided(parts, large, scenes.gang(minMember=3), first, rest[:2])
    assert got(fitting) == ["n3/gpu-1", "n3/gpu-0", "n3/gpu-2"]
    assert decided(parts, large, scenes.gang(minMember=4), first, rest).outcome is Outcome.UNPLACEABLE
    second = scenes.pod("llm-9", gang="llm", cpu=1, priority=0, **devices.of_template("large"))
    refused = decided(parts, large, scenes.gang(minMember=4), first, second, rest[:2])
    assert refused.proof == "Infeasible"


def test_a_gang_waits_for_the_objects_that_its_claims_name() -> None:
    decision = decided(scenes.nodes(RACKS, ["rack"]), scenes.gang(minMember=1), members(1))
    assert decision.message == "waits for ResourceClaimTemplate one"
    decision = decided(scenes.nodes(RACKS, ["rack"]), devices.template(), scenes.gang(minMember=1), members(1))
    assert decision.message == f"waits for DeviceClass {devices.DRIVER}"


def test_what_is_not_understood_is_named_and_the_gang_is_not_planned() -> None:
    odd = devices.template(devices.request("gpu", 1, devices.DRIVER, "device.colour == 'red'"), name="odd")
    decision = decided(cluster(), odd, scenes.gang(minMember=1), members(1, **devices.of_template("odd")))
    assert decision.outcome is Outcome.WAITING
    assert "stays gated: pod llm-0 has resource claims (spec.resourceClaims)" in decision.message
    assert "is not understood: 1:7: undeclared reference to 'device.colour'" in decision.message


def test_a_selector_that_fails_for_a_device_is_named() -> None:
    """The stock scheduler does not schedule such a pod either."""
    odd = devices.template(
        devices.request("gpu", 1, devices.DRIVER, f'device.attributes["{devices.DRIVER}"].model == "a"'), name="odd"
    )
    decision = decided(cluster(), odd, scenes.gang(minMember=1), members(1, **devices.of_template("odd")))
    assert decision.outcome is Outcome.WAITING
    assert 'Key not found in map : "model"' in decision.message


def test_two_gangs_of_one_priority_share_the_devices() -> None:
    small = cluster(n1=0, n2=0, n3=3, n4=0)
    gangs = [scenes.gang(name, minMember=1) for name in ("a", "b")]
    pods = [each for name in ("a", "b") for each in scenes.members(2, of=name, cpu=1, **devices.of_template())]
    run = scenes.solved(scenes.topology(["rack"]), small, gangs, pods)
    assert [each.outcome for each in run.decisions] == [Outcome.PLACED, Outcome.PLACED]
    every = [each for decision in run.decisions for each in got(decision)]
    assert sorted(every) == ["n3/gpu-0", "n3/gpu-1", "n3/gpu-2"]
