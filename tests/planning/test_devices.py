"""Gangs whose pods claim devices (dynamic resource allocation): the devices are planned with the nodes.

r1: n1 (1 device) n2 (2)        r2: n3 (3) n4 (2)
"""

import re
from typing import Any

import device_scenes as devices
import pytest
import scenes

from cli.text.decision_text import render
from planning.decision import Decision, Outcome
from planning.messages.solve_report import solve_report

OWN = f'device.attributes["{devices.DRIVER}"]'
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
    nearest = solve_report([decision], details=True)["gangs"][0]["explanation"]["nearest"]
    assert [each["devices"] for each in nearest] == [
        [{"devices": f"devices of {devices.DRIVER}", "requests": ["gpu"], "matching": 5, "free": 4, "needed": 5}],
        [{"devices": f"devices of {devices.DRIVER}", "requests": ["gpu"], "matching": 3, "free": 3, "needed": 5}],
    ]
    assert decision.explanation.would_fit_if[0] == f"1 more pod slot in r2, with 1 device of {devices.DRIVER}"
    table = render([decision])
    assert re.search(r"DOMAIN +REQUEST +DEVICES +MATCH +FREE +NEEDED +MISSING", table)
    assert re.search(rf"r2 +gpu +{devices.DRIVER} +5 +4 +5 +1\n", table)
    assert re.search(rf"r1 +gpu +{devices.DRIVER} +3 +3 +5 +2\n", table)


def test_kinds_with_devices_in_common_are_counted_alone_and_together() -> None:
    """n3 has two large devices and a small one. Two members ask for a large device and for any two devices each."""
    large = devices.request("big", 1, devices.DRIVER, f"{OWN}.size == 'large'")
    sized = [
        devices.device(f"gpu-{i}", attributes={"size": size}) for i, size in enumerate(("large", "large", "small"))
    ]
    decision = decided(
        cluster(n1=0, n2=0, n3=sized, n4=0),
        devices.template(large, devices.request("any", 2), name="both"),
        scenes.gang(minMember=2, required="rack"),
        members(2, **devices.of_template("both")),
    )
    (near, *_) = solve_report([decision], details=True)["gangs"][0]["explanation"]["nearest"]
    label = f"{devices.DRIVER} with {OWN}.size == 'large'"
    assert near["devices"] == [
        {"devices": f"devices of {label}", "requests": ["big"], "matching": 2, "free": 2, "needed": 2},
        {"devices": f"devices of {devices.DRIVER}", "requests": ["any"], "matching": 3, "free": 3, "needed": 4},
        {
            "devices": f"devices of {label} or {devices.DRIVER}",
            "requests": ["big", "any"],
            "matching": 3,
            "free": 3,
            "needed": 6,
        },
    ]
    assert decision.explanation.would_fit_if[0].endswith(f"with 1 device of {label} and 2 devices of {devices.DRIVER}")


def test_a_rejection_names_the_attribute_that_ties_devices_together() -> None:
    """Each node has two devices with different links, so no pair has one link, although enough devices are free."""
    apart = [devices.device(f"gpu-{i}", attributes={"link": str(i)}) for i in range(2)]
    pair = devices.template(
        devices.request("gpu", 2), name="pair", constraints=[{"matchAttribute": f"{devices.DRIVER}/link"}]
    )
    decision = decided(
        cluster(n1=apart, n2=apart, n3=0, n4=0),
        pair,
        scenes.gang(minMember=2),
        members(2, **devices.of_template("pair")),
    )
    assert decision.outcome is Outcome.UNPLACEABLE
    assert f"{devices.DRIVER} (equal {devices.DRIVER}/link)" in render([decision])


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


def gpus(*attributes: dict[str, Any], **more: Any) -> list[scenes.Manifest]:
    """Devices `gpu-0` and so on with these attributes."""
    return [devices.device(f"gpu-{place}", attributes=each, **more) for place, each in enumerate(attributes)]


def one_node(every: Any, **more: Any) -> list[scenes.Manifest]:
    """The cluster with these devices on n3 alone."""
    return cluster(n1=0, n2=0, n3=every, n4=0, **more)


def test_match_attribute_keeps_a_claim_within_one_numa_node() -> None:
    """3 and 3 devices hold two pairs of one NUMA node each, although they are three pairs."""
    every = gpus(*[{"numa": place // 3} for place in range(6)])
    pair = devices.template(
        devices.request(count=2), name="pair", constraints=[{"matchAttribute": f"{devices.DRIVER}/numa"}]
    )
    claim = devices.of_template("pair")
    decision = decided(one_node(every), pair, scenes.gang(minMember=2), members(2, **claim))
    assert got(decision) == ["n3/gpu-0 n3/gpu-1", "n3/gpu-3 n3/gpu-4"]
    assert decision.proof == "Optimal"
    assert decided(one_node(every), pair, scenes.gang(minMember=3), members(3, **claim)).proof == "Infeasible"


def test_distinct_attribute_spreads_a_claim() -> None:
    every = gpus({"numa": 0}, {"numa": 0}, {"numa": 1}, {})
    pair = devices.template(
        devices.request(count=2), name="pair", constraints=[{"distinctAttribute": f"{devices.DRIVER}/numa"}]
    )
    decision = decided(one_node(every), pair, scenes.gang(minMember=1), members(1, **devices.of_template("pair")))
    assert got(decision) == ["n3/gpu-0 n3/gpu-2"]


def test_a_request_for_all_devices_takes_the_node() -> None:
    every = devices.template(
        {"name": "gpu", "exactly": {"deviceClassName": devices.DRIVER, "allocationMode": "All"}}, name="every"
    )
    claim = devices.of_template("every")
    decision = decided(
        cluster(), every, scenes.gang(minMember=3), members(3, **claim), devices.user("x", "n3", "gpu-1")
    )
    assert got(decision) == ["n1/gpu-0", "n2/gpu-0 n2/gpu-1", "n4/gpu-0 n4/gpu-1"]


def of_one_domain(*sizes: int) -> list[scenes.Manifest]:
    """For each size, a pod of the gang whose claim is for so many devices of one domain, and the claim's template."""
    found = list[scenes.Manifest]()
    for size in sizes:
        domain = [{"matchAttribute": f"{devices.DRIVER}/domain"}]
        found.append(devices.template(devices.request("gpu", size), name=f"of-{size}", constraints=domain))
        found.append(scenes.pod(f"llm-{size}", gang="llm", cpu=1, **devices.of_template(f"of-{size}")))
    return found


def in_one_domain(number: int) -> list[scenes.Manifest]:
    """So many devices of one domain."""
    return [devices.device(f"gpu-{at}", attributes={"domain": 0}) for at in range(number)]


@pytest.mark.parametrize("sizes", [(1,), (2,), (1, 2)])
def test_the_node_with_the_fewest_devices_left_is_chosen(sizes: tuple[int, ...]) -> None:
    """All free devices of a node count, also if the gang needs fewer and its claims have constraints."""
    there = cluster(n1=in_one_domain(8), n2=in_one_domain(5), n3=in_one_domain(3), n4=0)
    decision = decided(there, scenes.gang(minMember=len(sizes)), of_one_domain(*sizes))
    assert [each.node for each in decision.assignments] == ["n3"] * len(sizes)
    assert decision.proof == "Optimal"


def test_a_plan_that_does_not_count_all_free_devices_is_not_called_optimal() -> None:
    """Two kinds of claims for 30 devices have too many combinations: only those of the members are tried."""
    there = cluster(n1=in_one_domain(30), n2=in_one_domain(20), n3=0, n4=0)
    decision = decided(there, scenes.gang(minMember=2), of_one_domain(1, 2))
    assert decision.proof == "Feasible"
    assert "not considered: how many devices are left" in decision.message


def evicting(there: list[scenes.Manifest], held: int) -> Decision:
    """The decision on a member that needs two devices of one domain, on n3, whose first devices running pods have.

    The running pods have one device each and a lower priority.
    """
    low = [each for at in range(held) for each in devices.user(f"low-{at}", "n3", f"gpu-{at}")]
    urgent = of_one_domain(2)
    urgent[1]["spec"]["priority"] = 10
    return decided(cluster(n1=0, n2=0, n3=there, n4=0), scenes.gang(minMember=1), urgent, low)


@pytest.mark.parametrize(("held", "victims"), [(2, 0), (3, 1), (4, 2)])
def test_evictions_free_devices_one_by_one_for_a_member_that_needs_two(held: int, victims: int) -> None:
    decision = evicting(in_one_domain(4), held)
    assert len(decision.evictions) == victims
    assert decision.proof == "Optimal"


def test_evictions_that_do_not_add_up_are_used_as_far_as_they_free_enough() -> None:
    """Two devices in each of two domains: only two pods of one domain free a pair."""
    decision = evicting([devices.device(f"gpu-{at}", attributes={"domain": at // 2}) for at in range(4)], 4)
    assert got(decision) == ["n3/gpu-0 n3/gpu-1"]
    assert len(decision.evictions) == 2
    assert decision.message.endswith("not proven optimal; not considered: some evictions of pods with devices")


@pytest.mark.parametrize(("domains", "placed"), [(4, 1), (7, 1), (8, 0)])
def test_of_many_pods_with_devices_six_are_possible_victims(domains: int, placed: int) -> None:
    decision = evicting([devices.device(f"gpu-{at}", attributes={"domain": at % domains}) for at in range(8)], 8)
    assert len(decision.assignments) == placed
    assert "in the time given" not in decision.message
    assert decision.message.endswith("; not considered: some evictions of pods with devices")


def test_an_alternative_is_taken_where_the_preferred_one_is_short() -> None:
    first = {"name": "big", "deviceClassName": devices.DRIVER, "count": 2}
    second = {"name": "small", "deviceClassName": devices.DRIVER, "count": 1}
    either = devices.template({"name": "gpu", "firstAvailable": [first, second]}, name="either")
    decision = decided(one_node(3), either, scenes.gang(minMember=2), members(2, **devices.of_template("either")))
    assert got(decision) == ["n3/gpu-0 n3/gpu-1", "n3/gpu-2"]
    assert [one.request for each in decision.assignments for one in each.devices[0].devices] == [
        "gpu/big",
        "gpu/big",
        "gpu/small",
    ]
    assert decision.proof == "Feasible"
    assert "not considered: the order of alternatives (firstAvailable) in the choice of nodes" in decision.message


def test_partitions_share_the_counters_of_their_card() -> None:
    """A card of 4 slices offers partitions of 2, 2 and 4: two small ones, or the whole."""

    def partition(name: str, slices: int) -> scenes.Manifest:
        counters = {"counterSet": "card", "counters": {"slices": {"value": str(slices)}}}
        return devices.device(name, attributes={"slices": slices}, consumesCounters=[counters])

    card = [{"name": "card", "counters": {"slices": {"value": "4"}}}]
    parts = [partition("half-0", 2), partition("half-1", 2), partition("whole", 4)]
    there = [*one_node(0), devices.resource_slice("n3", parts, sharedCounters=card)]
    decision = decided(there, scenes.gang(minMember=2), members(2))
    assert got(decision) == ["n3/half-0", "n3/half-1"]
    assert decided(there, scenes.gang(minMember=3), members(3)).proof == "Infeasible"
    busy = decided(there, scenes.gang(minMember=1), members(1), devices.user("x", "n3", "whole"))
    assert busy.proof == "Infeasible"


def test_taints_keep_requests_off_unless_they_tolerate_them() -> None:
    broken = gpus({}, taints=[{"key": "broken", "effect": "NoExecute"}])
    assert decided(one_node(broken), scenes.gang(minMember=1), members(1)).proof == "Infeasible"
    bearing = devices.template(devices.request(tolerations=[{"key": "broken", "operator": "Exists"}]), name="bearing")
    decision = decided(
        one_node(broken), bearing, scenes.gang(minMember=1), members(1, **devices.of_template("bearing"))
    )
    assert got(decision) == ["n3/gpu-0"]


def test_a_taint_rule_taints_the_devices_that_it_selects() -> None:
    rule = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "rule"},
        "spec": {
            "deviceSelector": {"driver": devices.DRIVER, "pool": "n3", "device": "gpu-0"},
            "taint": {"key": "broken", "effect": "NoSchedule"},
        },
    }
    assert got(decided(one_node(2), rule, scenes.gang(minMember=1), members(1))) == ["n3/gpu-1"]


def test_observed_devices_are_taken_from_nobody() -> None:
    watching = devices.template(devices.request(adminAccess=True), name="watching")
    claim = devices.of_template("watching")
    decision = decided(
        one_node(1), watching, scenes.gang(minMember=2), members(2, **claim), devices.user("x", "n3", "gpu-0")
    )
    assert got(decision) == ["n3/gpu-0", "n3/gpu-0"]
    assert all(one.admin_access for each in decision.assignments for one in each.devices[0].devices)


def test_members_that_share_a_claim_run_on_one_node() -> None:
    named = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "common"}]}
    decision = decided(
        cluster(), devices.claim("common", devices.request(count=3)), scenes.gang(minMember=2), members(2, **named)
    )
    assert {each.node for each in decision.assignments} == {"n3"}
    (allocation,) = decision.assignments[0].devices
    assert (allocation.name, allocation.pod_claim, allocation.pods) == ("common", "", ("llm-0", "llm-1"))
    assert not decision.assignments[1].devices


def test_a_claim_that_has_devices_already_pins_its_pod() -> None:
    named = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "early"}]}
    early = devices.claim("early", devices=[("n4", "gpu-1")])
    decision = decided(cluster(), early, scenes.gang(minMember=1), members(1, **named))
    assert [each.node for each in decision.assignments] == ["n4"]
    assert not decision.assignments[0].devices
    full = decided(
        cluster(), early, scenes.gang(minMember=3), members(1, **named), members(3)[1:], scenes.running("full", "n4")
    )
    assert full.outcome is Outcome.UNPLACEABLE


def test_devices_of_a_running_pod_must_be_known() -> None:
    """Without its claim, the devices of the pod would count as free."""
    other = scenes.running("other", "n3", cpu=0, **devices.of_template())
    decision = decided(cluster(), other, scenes.gang(minMember=1), members(1))
    assert decision.outcome is Outcome.WAITING
    assert "running pods whose ResourceClaims are not given (pod default/other)" in decision.message


def test_a_claim_of_which_only_some_pods_make_use_is_named() -> None:
    named = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "common"}]}
    decision = decided(
        cluster(), devices.claim("common"), scenes.gang(minMember=3), members(2, **named), members(3)[2:]
    )
    assert decision.outcome is Outcome.WAITING
    assert "a claim that only some of the pods share" in decision.message


@pytest.mark.parametrize("number", [256, 257])
def test_a_claim_is_used_by_as_many_pods_as_the_api_server_accepts(number: int) -> None:
    """`status.reservedFor` has at most 256 entries, so no scheduler could start one pod more."""
    there = one_node(1)
    for each in there:
        if each["kind"] == "Node":
            each["status"]["allocatable"]["pods"] = "300"
    named = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "common"}]}
    pods = members(number, cpu=0, **named)
    decision = decided(there, devices.claim("common"), scenes.gang(minMember=number), pods)
    if number == 257:
        assert decision.message.endswith(
            "stays gated: pods llm-0..256 use ResourceClaim common (spec.resourceClaims), and at most 256 pods can use "
            "one claim; use several claims, or a template"
        )
    else:
        assert decision.outcome is Outcome.PLACED, decision.message


def test_two_entries_of_a_pod_that_name_one_claim_need_its_devices_once() -> None:
    both = [{"name": name, "resourceClaimName": "common"} for name in "ab"]
    decision = decided(one_node(1), devices.claim("common"), scenes.gang(minMember=1), members(1, resourceClaims=both))
    assert got(decision) == ["n3/gpu-0"]


def sharing(*names: str) -> list[scenes.Manifest]:
    """Running pods of n3 that use gpu-0 by one claim."""
    entry = [{"name": "gpu", "resourceClaimName": "common"}]
    pods = [scenes.running(name, "n3", cpu=0, resourceClaims=entry) for name in names]
    return [*pods, devices.claim("common", devices=[("n3", "gpu-0")], pods=names)]


def goal(decision: Decision, name: str) -> int:
    """The value of the goal with this name."""
    return next(each.value for each in decision.goals if each.name == name)


def test_pods_that_share_a_claim_are_evicted_together() -> None:
    """Only both evictions together free the device, which no amount of one pod can say."""
    decision = decided(one_node(1), sharing("x", "y"), scenes.gang(minMember=1), members(1, priority=9))
    assert [each.name for each in decision.evictions] == ["x", "y"]
    assert (decision.proof, goal(decision, "gangsBroken")) == ("Feasible", 0)
    assert decision.message.endswith("not proven optimal; not considered: some evictions of pods with devices")


def test_devices_that_evictions_do_not_free_leave_a_rejection_unproven() -> None:
    """The plan would evict a pod of another gang, and its other pod would be too few."""
    other = scenes.gang("other", minMember=2)
    pods = [*sharing("x", "y"), scenes.running("z", "n4", cpu=0)]
    for each in pods[0], pods[3]:
        each["metadata"]["labels"] = {"phalanx.dev/gang": "other"}
    run = scenes.solved(one_node(1), other, pods, scenes.gang(minMember=1), members(1, priority=9))
    (decision,) = run.decisions
    assert (decision.outcome, decision.proof) == (Outcome.UNPLACEABLE, "Unproven")
    assert "not considered: some evictions of pods with devices" in decision.message


def test_a_gang_that_is_evicted_whole_frees_the_devices_of_its_claim() -> None:
    pods = sharing("x", "y")
    for each in pods[:2]:
        each["metadata"]["labels"] = {"phalanx.dev/gang": "other"}
    other = scenes.gang("other", minMember=2)
    run = scenes.solved(one_node(1), other, pods, scenes.gang(minMember=1), members(1, priority=9))
    (decision,) = run.decisions
    assert [each.name for each in decision.evictions] == ["x", "y"]
    assert goal(decision, "gangsBroken") == 1


@pytest.mark.parametrize(("minimum", "elsewhere", "victims"), [(1, 0, 2), (1, 1, None), (3, 1, 3)])
def test_a_gang_whose_pods_share_a_claim_may_be_smaller_afterwards(
    minimum: int, elsewhere: int, victims: int | None
) -> None:
    """Both pods with the claim go. A further pod of the gang may stay only if it could run alone: not planned."""
    pods = [*sharing("x", "y"), *(scenes.running("z", "n4", cpu=0) for _ in range(elsewhere))]
    for each in pods:
        if each["kind"] == "Pod":
            each["metadata"]["labels"] = {"phalanx.dev/gang": "other"}
    other = scenes.gang("other", minMember=minimum)
    run = scenes.solved(one_node(1), other, pods, scenes.gang(minMember=1), members(1, priority=9))
    (decision,) = run.decisions
    assert len(decision.evictions) == (victims or 0)
    assert decision.proof == ("Unproven" if victims is None else "Feasible")


def test_the_pod_of_a_gang_whose_own_device_is_needed_is_evicted_beside_pods_that_share_a_claim() -> None:
    """gpu-0 is shared by a claim, and gpu-1 is of a pod of a gang that another pod keeps running."""
    pods = [*sharing("x", "y"), *devices.user("z", "n3", "gpu-1"), scenes.running("w", "n4", cpu=0)]
    for each in pods:
        if each["metadata"]["name"] in "zw":
            each["metadata"]["labels"] = {"phalanx.dev/gang": "other"}
    other = scenes.gang("other", minMember=1)
    run = scenes.solved(one_node(2), other, pods, scenes.gang(minMember=2), members(2, priority=9))
    (decision,) = run.decisions
    assert {each.name for each in decision.evictions} == {"x", "y", "z"}


def on_card(*slices: int) -> list[scenes.Manifest]:
    """n3 with one card of four slices: a device for each of these numbers of slices."""
    card = [{"name": "card", "counters": {"slices": {"value": "4"}}}]
    parts = [
        devices.device(
            f"gpu-{place}",
            attributes={"slices": number},
            consumesCounters=[{"counterSet": "card", "counters": {"slices": {"value": str(number)}}}],
        )
        for place, number in enumerate(slices)
    ]
    return [*one_node(0), devices.resource_slice("n3", parts, sharedCounters=card)]


def test_pods_with_partitions_of_a_card_are_evicted_together_for_the_whole_card() -> None:
    """Each of the two pods has a half of the card. A gang of the priority of one of them gets no card."""
    whole = devices.template(devices.request("gpu", 1, devices.DRIVER, f"{OWN}.slices == 4"), name="whole")
    others = [*devices.user("x", "n3", "gpu-1"), *devices.user("y", "n3", "gpu-2", priority=2)]
    claim = devices.of_template("whole")
    decision = decided(on_card(4, 2, 2), whole, scenes.gang(minMember=1), members(1, priority=9, **claim), others)
    assert got(decision) == ["n3/gpu-0"]
    assert {each.name for each in decision.evictions} == {"x", "y"}
    higher = decided(on_card(4, 2, 2), whole, scenes.gang(minMember=1), members(1, priority=2, **claim), others)
    assert higher.outcome is Outcome.UNPLACEABLE


@pytest.mark.parametrize(("needed", "victims"), [(8, 8), (7, 7)])
def test_more_than_six_pods_are_evicted_for_the_devices_of_one_member(needed: int, victims: int) -> None:
    low = [each for at in range(8) for each in devices.user(f"low-{at}", "n3", f"gpu-{at}")]
    urgent = of_one_domain(needed)
    urgent[1]["spec"]["priority"] = 10
    there = cluster(n1=0, n2=0, n3=in_one_domain(8), n4=0)
    decision = decided(there, scenes.gang(minMember=1), urgent, low)
    assert len(decision.evictions) == victims


def test_evicting_a_pod_with_another_partition_of_the_card_frees_counters() -> None:
    """The gang does not select the device of the running pod."""
    counters = {"counterSet": "card", "counters": {"slices": {"value": "2"}}}
    parts = [
        devices.device(f"gpu-{place}", attributes={"model": model}, consumesCounters=[counters])
        for place, model in enumerate("ab")
    ]
    card = [{"name": "card", "counters": {"slices": {"value": "2"}}}]
    there = [*one_node(0), devices.resource_slice("n3", parts, sharedCounters=card)]
    of_a = devices.template(devices.request("gpu", 1, devices.DRIVER, f'{OWN}.model == "a"'), name="a")
    claim = devices.of_template("a")
    decision = decided(
        there, of_a, scenes.gang(minMember=1), members(1, priority=9, **claim), devices.user("x", "n3", "gpu-1")
    )
    assert [each.name for each in decision.evictions] == ["x"]
    assert got(decision) == ["n3/gpu-0"]


def test_an_eviction_frees_all_devices_of_a_node_beside_claims_of_one() -> None:
    """No node has all of its devices free, and a claim of one device may not be on the node of the eviction."""
    every = devices.template(
        {"name": "gpu", "exactly": {"deviceClassName": devices.DRIVER, "allocationMode": "All"}}, name="every"
    )
    there = cluster(n1=0, n2=2, n3=3, n4=0)
    others = [*devices.user("x", "n2", "gpu-0"), *devices.user("y", "n3", "gpu-0", priority=99)]
    pods = [
        *scenes.members(2, cpu=1, priority=9, **devices.of_template()),
        scenes.pod("llm-2", gang="llm", cpu=1, priority=9, **devices.of_template("every")),
    ]
    decision = decided(there, every, scenes.gang(minMember=3), pods, others)
    assert got(decision) == ["n3/gpu-1", "n3/gpu-2", "n2/gpu-0 n2/gpu-1"]
    assert ([each.name for each in decision.evictions], decision.proof) == (["x"], "Optimal")


def test_only_the_newest_generation_of_a_pool_counts_and_only_a_complete_one() -> None:
    old = devices.resource_slice("n3", 3, name="old", pool={"generation": 0})
    assert decided(one_node(1), old, scenes.gang(minMember=2), members(2)).proof == "Infeasible"
    half = devices.resource_slice("n3", 3, pool={"resourceSliceCount": 2})
    assert decided(one_node(0), half, scenes.gang(minMember=1), members(1)).proof == "Infeasible"


def test_gangs_of_one_priority_share_devices_of_overlapping_kinds() -> None:
    """The first gang could take the only large device. Then the second one would have no place."""
    mixed = gpus({"size": "large"}, {"size": "small"})
    large = devices.template(
        devices.request("gpu", 1, devices.DRIVER, f'device.attributes["{devices.DRIVER}"].size == "large"'),
        name="large",
    )
    pods = [
        scenes.members(1, of="a", cpu=1, **devices.of_template()),
        scenes.members(1, of="b", cpu=1, **devices.of_template("large")),
    ]
    gangs = [scenes.gang(name, minMember=1) for name in ("a", "b")]
    run = scenes.solved(scenes.topology(["rack"]), one_node(mixed), large, gangs, *pods)
    assert [got(each) for each in run.decisions] == [["n3/gpu-1"], ["n3/gpu-0"]]
    assert [each.proof for each in run.decisions] == ["Optimal", "Optimal"]


def test_a_gang_that_ignores_its_claims_is_planned_without_them() -> None:
    ignoring = scenes.gang(minMember=2)
    ignoring["metadata"]["annotations"] = {"phalanx.dev/ignore-resource-claims": "true"}
    decision = decided(one_node(1), ignoring, members(2))
    assert decision.outcome is Outcome.PLACED
    assert decision.message.endswith("; not considered: dynamic resource claims (spec.resourceClaims)")


def test_a_gang_that_needs_more_devices_than_there_are_never_fits() -> None:
    """Devices of running pods count as free in the empty cluster."""
    decision = decided(
        cluster(), scenes.gang(minMember=6, required="rack"), members(6), devices.user("other", "n3", "gpu-0")
    )
    assert decision.message == (
        "never fits this cluster, even without other pods: needs 6 pods in one rack, "
        f"and the largest rack, r2 (2 nodes), holds 5; devices of {devices.DRIVER}: 5 in r2, 6 needed"
    )
    fitting = decided(
        cluster(), scenes.gang(minMember=5, required="rack"), members(5), devices.user("other", "n3", "gpu-0")
    )
    assert fitting.message.startswith("needs 5 pods in one rack: r2 fits 4 of 5")


def test_older_versions_with_other_fields_are_refused() -> None:
    old = {**devices.template(), "apiVersion": "resource.k8s.io/v1beta1"}
    run = scenes.solved(scenes.topology(["rack"]), scenes.nodes(RACKS, ["rack"]), old)
    assert [each.problem for each in run.mistakes] == [
        (
            '"resource.k8s.io/v1beta1" of ResourceClaimTemplate has other fields than those that are read; '
            "write resource.k8s.io/v1"
        )
    ]


def test_a_misspelt_field_of_a_claim_is_a_mistake() -> None:
    wrong = devices.template({"name": "gpu", "exactly": {"deviceClassName": "x", "counts": 2}})
    run = scenes.solved(scenes.topology(["rack"]), scenes.nodes(RACKS, ["rack"]), wrong)
    assert [each.field for each in run.mistakes] == ["spec.spec.devices.requests[0].exactly.counts"]


@pytest.mark.parametrize("count", [33, 2_000_000_000, 2**63 - 1])
@pytest.mark.parametrize("searched", [False, True], ids=["by number", "by search"])
def test_a_claim_never_gets_more_devices_than_the_api_server_accepts(count: int, *, searched: bool) -> None:
    """Such an allocation is refused, so the gang would wait for ever; and any tenant may write such a number."""
    kept = [{"matchAttribute": "gpu.example.com/model"}] if searched else []
    every = [devices.device(f"gpu-{at}", attributes={"model": "a"}) for at in range(40)]
    parts = devices.resource_slice("n1", every), devices.device_class()
    asked = devices.template(devices.request(count=count), constraints=kept)
    members = scenes.members(2, cpu=1, **devices.of_template())
    run = scenes.solved(scenes.nodes("r1: n1", ["rack"]), *parts, asked, scenes.gang(minMember=2), members)
    (decision,) = run.decisions
    assert decision.outcome is Outcome.WAITING
    assert "pods llm-0..1 ask for more than 32 devices in one claim (ResourceClaimTemplate one: " in decision.message


def test_an_alternative_of_any_number_is_passed_over() -> None:
    alternatives = [
        {"name": name, "deviceClassName": devices.DRIVER, "count": count}
        for name, count in (("many", 2**63 - 1), ("one", 1))
    ]
    asked = devices.template({"name": "gpu", "firstAvailable": alternatives}, name="some")
    pods = members(4, **devices.of_template("some"))
    decision = decided(cluster(), asked, scenes.gang(minMember=4, required="rack"), pods)
    assert got(decision) == ["n3/gpu-0", "n3/gpu-1", "n3/gpu-2", "n4/gpu-0"]


def test_a_claim_with_very_many_combinations_of_alternatives_is_given_up() -> None:
    """No device matches, so each of the 8^32 combinations would be tried without an end."""
    none = devices.device_class("none", "false")
    alternatives = [{"name": f"a{at}", "deviceClassName": "none", "count": 1} for at in range(8)]
    asked = devices.template(*({"name": f"r{at}", "firstAvailable": alternatives} for at in range(32)), name="some")
    pods = members(2, **devices.of_template("some"))
    decision = decided(cluster(), none, asked, scenes.gang(minMember=2), pods)
    assert "takes too long" in decision.message
