"""Levels below the node: a topology names an attribute of devices, such as the NVLink domain."""

from collections.abc import Sequence
from typing import Any

import device_scenes as devices
import pytest
import scenes

from planning.decision import Decision, Outcome
from planning.devices import columns
from planning.devices.node_search import NodeDevices, node_devices
from planning.messages.solve_report import solve_report

ATTRIBUTE = f"{devices.DRIVER}/nvlinkDomain"
NODES = """
r1: n1 n2
r2: n3 n4
"""


def topology(*below: scenes.Manifest, racks: bool = True) -> scenes.Manifest:
    """Racks, nodes, and below them the NVLink domains, or these levels."""
    levels = [
        *([{"name": "rack", "nodeLabel": scenes.label("rack")}] if racks else []),
        *(below or [{"name": "nvlink", "deviceAttribute": ATTRIBUTE}]),
    ]
    return {
        "apiVersion": "phalanx.dev/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "datacenter"},
        "spec": {"levels": levels},
    }


def gpus(domains: str) -> list[scenes.Manifest]:
    """GPUs with these NVLink domains, one character each; "-" for a GPU without a domain."""
    return [
        devices.device(f"gpu-{place}", attributes={} if domain == "-" else {"nvlinkDomain": int(domain)})
        for place, domain in enumerate(domains)
    ]


def cluster(template: scenes.Manifest | None = None, **by_node: str) -> list[scenes.Manifest]:
    """The nodes with GPUs in these NVLink domains, the class, and a template `pair` of two GPUs, or this template."""
    slices = [devices.resource_slice(node, gpus(domains)) for node, domains in by_node.items()]
    pair = template or devices.template(devices.request(count=2), name="pair")
    return [*scenes.nodes(NODES, ["rack"]), devices.device_class(), pair, *slices]


def members(count: int, of: str = "llm", **more: Any) -> list[scenes.Manifest]:
    """Pods of the gang with a claim of the template `pair` each."""
    return scenes.members(count, of, **{"cpu": 1, **devices.of_template("pair"), **more})


def decided(*parts: Any, below: Sequence[scenes.Manifest] = (), **options: Any) -> Decision:
    """The decision for the one gang in these manifests."""
    run = scenes.solved(topology(*below), *parts, **options)
    assert not run.mistakes, run.mistakes
    (decision,) = run.decisions
    return decision


def got(decision: Decision) -> list[str]:
    """The devices of each member."""
    return [
        " ".join(each.device.device for claim in assignment.devices for each in claim.devices)
        for assignment in decision.assignments
    ]


def domains(decision: Decision) -> list[tuple[str, int]]:
    """The used domains of the levels below the node with their numbers of members."""
    return [("/".join(one.path), one.pods) for level in decision.device_levels for one in level.domains]


def test_a_required_level_binds_the_devices_of_each_pod() -> None:
    decision = decided(cluster(n1="010", n2="0011"), scenes.gang(minMember=2, required="nvlink"), members(2))
    assert got(decision) == ["gpu-0 gpu-1", "gpu-2 gpu-3"]
    assert decision.message == ("2 pods fit on n2, proven optimal; their devices are in 2 domains of nvlink")
    report = solve_report([decision])["gangs"][0]
    assert report["levels"][-1] == {
        "level": "nvlink",
        "label": ATTRIBUTE,
        "mode": "required",
        "domains": [{"path": ["r1", "n2", "0"], "pods": 1}, {"path": ["r1", "n2", "1"], "pods": 1}],
    }
    assert report["objective"][-1] == {
        "goal": "compactness/nvlink",
        "value": 2,
        "bound": 2,
        "parts": {"gang": 2, "members": 2},
    }


@pytest.mark.parametrize("as_set", [False, True], ids=["gang", "pod set"])
def test_a_required_level_below_the_node_leaves_every_preferred_level(*, as_set: bool) -> None:
    """The required level is about the devices of each member, the preferred one about nodes. n2 holds no pair."""
    levels = {"required": "nvlink", "preferred": "rack"}
    gang = (
        scenes.gang(podSets=[{"name": "main", "count": 2, **levels}]) if as_set else scenes.gang(minMember=2, **levels)
    )
    decision = decided(cluster(n1="00", n2="01", n3="112", n4="001"), gang, members(2))
    assert decision.proof == "Optimal", decision.message
    assert {each.node for each in decision.assignments} == {"n3", "n4"}
    assert got(decision) == ["gpu-0 gpu-1", "gpu-0 gpu-1"]
    modes = {each["level"]: each["mode"] for each in solve_report([decision])["gangs"][0]["levels"]}
    assert (modes["rack"], modes["nvlink"]) == ("preferred", "required")


def test_a_wider_preferred_level_widens_if_one_rack_is_too_small() -> None:
    gang = scenes.gang(minMember=3, required="nvlink", preferred="rack")
    decision = decided(cluster(n1="00", n2="01", n3="112", n4="001"), gang, members(3))
    assert {each.node for each in decision.assignments} == {"n1", "n3", "n4"}


def test_three_devices_in_two_domains_hold_no_second_pair() -> None:
    decision = decided(cluster(n1="0101", n2="01"), scenes.gang(minMember=3, required="nvlink"), members(3))
    assert (decision.outcome, decision.proof) == (Outcome.UNPLACEABLE, "Infeasible")


def test_without_the_level_the_pairs_may_be_apart() -> None:
    decision = decided(cluster(n1="01", n2="01"), scenes.gang(minMember=2), members(2))
    assert decision.outcome is Outcome.PLACED
    assert domains(decision) == [("r1/n1/0", 1), ("r1/n1/1", 1), ("r1/n2/0", 1), ("r1/n2/1", 1)]


@pytest.mark.parametrize(("devices_there", "helps"), [("0123", True), ("0", False)])
def test_a_rejection_names_the_required_level_without_which_the_gang_fits(devices_there: str, *, helps: bool) -> None:
    decision = decided(cluster(n1=devices_there), scenes.gang(minMember=1, required="nvlink"), members(1))
    assert decision.proof == "Infeasible"
    assert ("required level nvlink dropped" in decision.explanation.would_fit_if) is helps
    slot = f"1 more pod slot in the cluster, with 2 devices of {devices.DRIVER} with equal {ATTRIBUTE} in each claim"
    assert slot in decision.explanation.would_fit_if


def test_a_rejection_names_the_required_level_of_a_pod_set() -> None:
    pod_set = {"name": "main", "count": 1, "required": "nvlink"}
    decision = decided(cluster(n1="01"), scenes.gang(podSets=[pod_set]), members(1))
    assert "required level nvlink dropped" in decision.explanation.would_fit_if


def test_four_pairs_are_in_two_domains_of_four() -> None:
    decision = decided(cluster(n3="01010101"), scenes.gang(minMember=4, preferred="nvlink"), members(4))
    assert decision.proof == "Optimal"
    assert domains(decision) == [("r2/n3/0", 2), ("r2/n3/1", 2)]


def test_two_pairs_are_in_one_domain_though_the_first_devices_are_in_two() -> None:
    decision = decided(cluster(n3="01101010"), scenes.gang(minMember=2, preferred="nvlink"), members(2))
    assert decision.message == "2 pods fit on n3, proven optimal; their devices are in 1 domain of nvlink"
    assert got(decision) == ["gpu-0 gpu-3", "gpu-5 gpu-7"]


def test_of_two_equally_good_nodes_the_one_with_fewer_domains_is_chosen() -> None:
    decision = decided(cluster(n1="0011", n2="0000"), scenes.gang(minMember=2, preferred="nvlink"), members(2))
    assert {each.node for each in decision.assignments} == {"n2"}
    assert (decision.proof, domains(decision)) == ("Optimal", [("r1/n2/0", 2)])


def test_a_node_with_more_capacity_left_is_not_chosen_for_fewer_domains() -> None:
    """Waste precedes: n1 is filled, n2 would keep a GPU. That n1 needs two domains is proven to be the best."""
    decision = decided(cluster(n1="0011", n2="00000"), scenes.gang(minMember=2, preferred="nvlink"), members(2))
    assert {each.node for each in decision.assignments} == {"n1"}
    assert (decision.proof, domains(decision)) == ("Optimal", [("r1/n1/0", 1), ("r1/n1/1", 1)])


def test_over_several_nodes_fewer_domains_are_not_ruled_out() -> None:
    decision = decided(
        cluster(n1="0011", n2="0011", n3="0000", n4="0000"), scenes.gang(minMember=4, preferred="nvlink"), members(4)
    )
    assert decision.device_goals[0].bound == 2
    if len(domains(decision)) > 2:
        assert decision.proof == "Feasible"
        assert "other nodes on which fewer than 4 domains of nvlink may suffice" in decision.message


def test_a_running_member_keeps_its_domain_and_draws_the_others() -> None:
    claim = devices.claim(
        "running", devices.request(count=2), devices=[("n1", "gpu-2"), ("n1", "gpu-3")], pods=["llm-9"]
    )
    before = scenes.pod(
        "llm-9",
        gang="llm",
        cpu=1,
        priority=0,
        nodeName="n1",
        resourceClaims=[{"name": "gpu", "resourceClaimName": "running"}],
    )
    decision = decided(cluster(n1="00111100"), claim, before, scenes.gang(minMember=2, preferred="nvlink"), members(1))
    assert domains(decision) == [("r1/n1/1", 2)]
    assert decision.proof == "Optimal"


def test_devices_without_the_attribute_are_one_further_domain() -> None:
    decision = decided(cluster(n1="0--0"), scenes.gang(minMember=2, preferred="nvlink"), members(2))
    assert domains(decision) == [("r1/n1/(none)", 1), ("r1/n1/0", 1)]
    bound = decided(cluster(n1="0--0"), scenes.gang(minMember=2, required="nvlink"), members(2))
    assert bound.proof == "Infeasible"


def test_the_wider_level_precedes_the_narrower() -> None:
    below = [
        {"name": "numa", "deviceAttribute": f"{devices.DRIVER}/numa"},
        {"name": "nvlink", "deviceAttribute": ATTRIBUTE},
    ]
    every = [
        devices.device(f"gpu-{place}", attributes={"numa": numa, "nvlinkDomain": domain})
        for place, (numa, domain) in enumerate([(0, 0), (1, 0), (1, 1), (1, 2), (0, 0), (0, 3), (1, 3)])
    ]
    parts = [*cluster(), devices.resource_slice("n1", every)]
    decision = decided(*parts, scenes.gang(minMember=2, preferred="nvlink"), members(2), below=below)
    assert [(each.level, len(each.domains)) for each in decision.device_levels] == [("numa", 1), ("nvlink", 4)]


def test_several_gangs_are_planned_together_with_their_levels() -> None:
    parts = cluster(n1="00110011")
    run = scenes.solved(
        topology(),
        parts,
        scenes.gang("a", minMember=2, required="nvlink"),
        members(2, "a"),
        scenes.gang("b", minMember=2, required="nvlink"),
        members(2, "b"),
    )
    assert [each.outcome for each in run.decisions] == [Outcome.PLACED] * 2
    assert not run.mistakes


def test_a_level_that_no_device_publishes_keeps_the_gang_waiting() -> None:
    decision = decided(cluster(n1="----"), scenes.gang(minMember=2, required="nvlink"), members(2))
    assert decision.outcome is Outcome.WAITING
    assert f"no selected device in a ResourceSlice has the attribute ({ATTRIBUTE})" in decision.message


def test_a_level_below_the_node_waits_for_pods_with_claims() -> None:
    decision = decided(cluster(n1="0011"), scenes.gang(minMember=2, required="nvlink"), scenes.members(2, cpu=1))
    assert (decision.outcome, decision.message) == (
        Outcome.WAITING,
        (
            'stays gated: level "nvlink" is a level of devices, and no pod has resource claims (spec.resourceClaims); '
            "claim the devices, or require a level of nodes"
        ),
    )


def test_a_pod_set_has_its_own_level() -> None:
    spec = [{"name": "a", "count": 1, "required": "nvlink"}, {"name": "b", "count": 1}]
    pods = [
        *scenes.members(1, "llm", cpu=1, pod_set="b", **devices.of_template("pair")),
        scenes.pod("other", gang="llm", pod_set="a", cpu=1, priority=0, **devices.of_template("pair")),
    ]
    decision = decided(cluster(n1="0110"), scenes.gang(podSets=spec), pods)
    assert decision.outcome is Outcome.PLACED
    apart = decided(cluster(n1="0123"), scenes.gang(podSets=spec), pods)
    assert apart.proof == "Infeasible"


def test_partitions_in_other_domains_consume_no_counters() -> None:
    """Domain 0 has two partitions, and domain 1 has four. The card has counters for four of them."""
    consumed = [{"counterSet": "card", "counters": {"slices": {"value": "1"}}}]
    parts = [
        devices.device(f"gpu-{place}", attributes={"nvlinkDomain": int(place > 1)}, consumesCounters=consumed)
        for place in range(6)
    ]
    card = [{"name": "card", "counters": {"slices": {"value": "4"}}}]
    there = [*cluster(), devices.resource_slice("n1", parts, sharedCounters=card)]
    one = decided(there, scenes.gang(minMember=1, preferred="nvlink"), members(1))
    assert domains(one) == [("r1/n1/0", 1)]
    two = decided(there, scenes.gang(minMember=2, preferred="nvlink"), members(2))
    assert (two.proof, domains(two)) == ("Optimal", [("r1/n1/1", 2)])


def test_all_devices_of_a_node_are_in_all_its_domains() -> None:
    every = {"name": "gpu", "exactly": {"deviceClassName": devices.DRIVER, "allocationMode": "All"}}
    decision = decided(
        cluster(devices.template(every, name="pair"), n1="0011", n2="00"),
        scenes.gang(minMember=2, preferred="nvlink"),
        members(2),
    )
    assert sorted(domains(decision)) == [("r1/n1/0", 1), ("r1/n1/1", 1), ("r1/n2/0", 1)]
    bound = decided(
        cluster(devices.template(every, name="pair"), n1="0011", n2="00", n3="0"),
        scenes.gang(minMember=2, required="nvlink"),
        members(2),
    )
    assert sorted({each.node for each in bound.assignments}) == ["n2", "n3"]


def test_devices_that_differ_only_in_attributes_that_no_claim_reads_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers publish a UUID for each device. Nodes whose GPUs differ in nothing else are searched once."""
    searched = list[str]()

    def counted(node: str, *arguments: Any) -> NodeDevices:
        searched.append(node)
        return node_devices(node, *arguments)

    monkeypatch.setattr(columns, "node_devices", counted)
    nodes = ("n1", "n2", "n3", "n4")
    domains = {"nvlinkDomain": 0}
    slices = [
        devices.resource_slice(
            node, [devices.device(f"gpu-{at}", attributes={**domains, "uuid": f"{node}-{at}"}) for at in range(2)]
        )
        for node in nodes
    ]
    decision = decided(*cluster(), *slices, scenes.gang(minMember=4, required="nvlink"), members(4))
    assert decision.outcome is Outcome.PLACED
    assert len(searched) < len(nodes)


def test_many_small_domains_are_not_all_combined() -> None:
    """There are 10^11 sets of 20 of 40 domains: the search of too small sets for 20 devices did not end."""
    one = devices.template(name="pair")
    every = [devices.device(f"gpu-{at}", attributes={"nvlinkDomain": at}) for at in range(40)]
    parts = [*scenes.nodes(NODES, ["rack"]), devices.device_class(), one, devices.resource_slice("n1", every)]
    decision = decided(parts, scenes.gang(minMember=20, preferred="nvlink"), members(20, cpu=0))
    assert len(domains(decision)) == 20
    assert "their devices are in 20 domains of nvlink" in decision.message


def test_domains_of_different_sizes_are_combined_as_far_as_that_ends() -> None:
    """Most sets are too small. The largest domains come first."""
    sizes = [1] * 30 + [4] * 5
    every = [
        devices.device(f"gpu-{domain}-{at}", attributes={"nvlinkDomain": domain})
        for domain, size in enumerate(sizes)
        for at in range(size)
    ]
    one = devices.template(name="pair")
    parts = [*scenes.nodes(NODES, ["rack"]), devices.device_class(), one, devices.resource_slice("n1", every)]
    decision = decided(parts, scenes.gang(minMember=20, preferred="nvlink"), members(20, cpu=0))
    assert decision.outcome is Outcome.PLACED
    assert len(domains(decision)) == 5
    assert "may suffice" not in decision.message
