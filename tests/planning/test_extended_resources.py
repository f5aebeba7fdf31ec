"""Gangs whose pods request an extended resource that a DeviceClass provides: planned with the claims that they get.

r1: n1 (1 device) n2 (2)        r2: n3 (3) n4 (2)
"""

from dataclasses import replace
from typing import Any

import device_scenes as devices
import pytest
import scenes
from msgspec import structs

from cluster.devices.extended_resources import as_written, conversion_of, converted, template_of
from controller.scheduling.demand import MinimumDemand
from gangs.manifests import pod_of
from gangs.model import Member
from gangs.workloads.later_pods.made_again import seat_again
from kube.placeholders import seat_uid
from planning.decision import Decision, Outcome
from planning.messages.solve_report import solve_report

GPU = "example.com/gpu"
IMPLICIT = f"deviceclass.resource.kubernetes.io/{devices.DRIVER}"
RACKS = """
r1: n1 n2
r2: n3 n4
"""


def providing(name: str = devices.DRIVER, resource: str = GPU, **metadata: Any) -> scenes.Manifest:
    """A DeviceClass of all devices that provides an extended resource."""
    found = devices.device_class(name)
    found["metadata"] |= metadata
    found["spec"]["extendedResourceName"] = resource
    return found


def cluster(*nodes: scenes.Manifest, **by_node: int) -> list[scenes.Manifest]:
    """The nodes with their devices."""
    found = {"n1": 1, "n2": 2, "n3": 3, "n4": 2, **by_node}
    slices = [devices.resource_slice(node, each) for node, each in found.items() if each]
    return [*(nodes or scenes.nodes(RACKS, ["rack"])), *slices]


def asking(count: int, amount: int = 1, resource: str = GPU, **more: Any) -> list[scenes.Manifest]:
    """Pods that request the resource."""
    found = scenes.members(count, **{"cpu": 1, **more})
    for each in found:
        asked = each["spec"]["containers"][0].setdefault("resources", {})
        asked["limits"] = {resource: str(amount)}
    return found


def decided(*parts: Any) -> Decision:
    """The decision for the one gang in these manifests."""
    run = scenes.solved(scenes.topology(["rack"]), *parts)
    assert not run.mistakes, run.mistakes
    (decision,) = run.decisions
    return decision


def got(decision: Decision) -> list[str]:
    """The devices of the members, as `node/device`."""
    return [
        " ".join(f"{each.device.pool}/{each.device.device}" for claim in assignment.devices for each in claim.devices)
        for assignment in decision.assignments
    ]


@pytest.mark.parametrize("given", [True, False])
def test_devices_of_a_running_pod_count_by_the_claim_of_the_scheduler(*, given: bool) -> None:
    """Files may lack the claim that the scheduler has created. The devices of the pod would count as free."""
    (other,) = asking(1, amount=2, cpu=0, nodeName="n2")
    other["metadata"] = {"name": "other", "namespace": "default", "uid": "uid-other"}
    claims = [devices.claim("other-0", devices=[("n2", "gpu-0"), ("n2", "gpu-1")], pods=["other"])] if given else []
    decision = decided(cluster(n3=0, n4=0), providing(), scenes.gang(minMember=1), asking(1), other, claims)
    if given:
        assert got(decision) == ["n1/gpu-0"]
    else:
        assert decision.outcome is Outcome.WAITING
        assert "running pods whose ResourceClaims are not given (pod default/other)" in decision.message


@pytest.mark.parametrize("resource", [GPU, IMPLICIT])
def test_devices_of_the_class_are_planned(resource: str) -> None:
    decision = decided(cluster(), providing(), scenes.gang(minMember=4, required="rack"), asking(4, resource=resource))
    assert decision.message == "4 pods fit in r2: n3..4, proven optimal"
    assert got(decision) == ["n3/gpu-0", "n3/gpu-1", "n3/gpu-2", "n4/gpu-0"]
    report = solve_report([decision])["gangs"][0]["assignments"][0]["devices"]
    assert [(each["request"], each["device"]) for each in report] == [("container-0-request-1", "gpu-0")]


@pytest.mark.parametrize("stored", [False, True], ids=["in a dry run", "stored"])
def test_a_request_for_zero_devices_needs_no_device(*, stored: bool) -> None:
    """Templates often write `nvidia.com/gpu: 0`. The stock scheduler starts such pods on every node."""
    pods = asking(2, amount=0)
    for each in pods if stored else ():
        each["metadata"]["uid"] = each["metadata"]["name"]
    decision = decided(cluster(n1=0, n2=0, n3=0, n4=0), providing(), scenes.gang(minMember=2), pods)
    assert (decision.outcome, decision.proof) == (Outcome.PLACED, "Optimal"), decision.message


def test_a_gang_that_ignores_claims_is_planned_without_its_devices() -> None:
    ignoring = scenes.gang(minMember=4)
    ignoring["metadata"]["annotations"] = {"phalanx.dev/ignore-resource-claims": "true"}
    decision = decided(cluster(), providing(), ignoring, asking(4, amount=9))
    assert len(decision.assignments) == 4
    assert not any(each.devices for each in decision.assignments)
    assert decision.message.endswith(f"not proven optimal; not considered: devices for {GPU}")


def test_a_pod_with_too_many_requests_for_one_claim_is_named_with_the_limit() -> None:
    """No annotation and no recreation helps: kube-scheduler would create the same claim."""
    pods = asking(2)
    for each in pods:
        first = each["spec"]["containers"][0]
        each["spec"]["containers"] = [{**first, "name": f"c{at}"} for at in range(33)]
    decision = decided(cluster(), providing(), scenes.gang(minMember=2), pods)
    assert decision.outcome is Outcome.WAITING
    assert decision.message.endswith(
        "stays gated: pods llm-0..1 ask for devices in 33 requests, one for each resource of each container "
        "(spec.containers[*].resources, which becomes one ResourceClaim), and one claim can have at most 32 requests; "
        "request devices in fewer containers, or use several claims (spec.resourceClaims)"
    )


def test_a_pod_with_too_many_devices_for_one_claim_is_named_with_the_limit() -> None:
    decision = decided(cluster(n1=40), providing(), scenes.gang(minMember=1), asking(1, 33))
    assert decision.outcome is Outcome.WAITING
    assert decision.message.endswith(
        "stays gated: pod llm-0 asks for more than 32 devices in one claim (spec.containers[*].resources, which "
        "becomes one ResourceClaim), and one claim can have at most 32 devices; ask for fewer devices, or use several "
        "claims (spec.resourceClaims)"
    )


def test_a_claim_entry_with_the_name_of_conversion_stays_the_users() -> None:
    """The names of a pod's entries differ, so conversion adds its entry under another name."""
    entry = {"name": "phalanx-extended-resources", "resourceClaimTemplateName": "one"}
    (pod,) = asking(1, resourceClaims=[entry])
    decision = decided(cluster(), providing(), devices.template(), scenes.gang(minMember=1), pod)
    assert decision.outcome is Outcome.PLACED, decision.message
    report = solve_report([decision])["gangs"][0]["assignments"][0]["devices"]
    assert [each["claim"] for each in report] == [
        "llm-0-phalanx-extended-resources",
        "llm-0-phalanx-extended-resources-2",
    ]
    assert len(set(got(decision)[0].split())) == 2


def test_a_pod_that_wants_more_than_a_node_has_is_refused_with_numbers() -> None:
    decision = decided(cluster(), providing(), scenes.gang(minMember=1), asking(1, 4))
    assert decision.outcome is Outcome.UNPLACEABLE
    assert decision.proof == "Infeasible"
    assert f"devices of {devices.DRIVER}" in decision.message


def test_a_rejection_by_rack_counts_devices() -> None:
    decision = decided(cluster(), providing(), scenes.gang(minMember=6, required="rack"), asking(6))
    assert f"devices of {devices.DRIVER}: 5 in r2, 6 needed" in decision.message


def test_the_youngest_of_several_classes_provides_the_resource() -> None:
    """As in kube-scheduler; of two of one second the first by name. The class `old` selects nothing."""
    none = {"selectors": [{"cel": {"expression": "false"}}], "extendedResourceName": GPU}
    old = {**providing("old", creationTimestamp="2026-01-01T00:00:00Z"), "spec": none}
    young = providing("young", creationTimestamp="2026-01-02T00:00:00Z")
    decision = decided(cluster(), old, young, scenes.gang(minMember=2), asking(2))
    assert decision.outcome is Outcome.PLACED


def test_an_init_container_uses_the_devices_of_later_containers() -> None:
    """2 + 1 devices for the containers; the init container with 3 uses these, and the one with 4 needs one more."""
    (pod,) = asking(1, 2)
    main = pod["spec"]["containers"][0]
    pod["spec"]["containers"].append({**main, "name": "second", "resources": {"limits": {GPU: "1"}}})
    pod["spec"]["initContainers"] = [{**main, "name": "init", "resources": {"limits": {GPU: "3"}}}]
    assert got(decided(cluster(), providing(), scenes.gang(minMember=1), pod)) == ["n3/gpu-0 n3/gpu-1 n3/gpu-2"]
    pod["spec"]["initContainers"][0]["resources"]["limits"] = {GPU: "4"}
    assert decided(cluster(), providing(), scenes.gang(minMember=1), pod).outcome is Outcome.UNPLACEABLE


def test_a_class_of_the_implicit_name_that_is_missing_is_waited_for() -> None:
    decision = decided(cluster(), scenes.gang(minMember=1), asking(1, resource=IMPLICIT))
    assert decision.message == f"waits for DeviceClass {devices.DRIVER}"


def test_a_stored_pod_that_was_not_converted_stays_gated_with_the_remedy() -> None:
    """The API server accepts no claims for a pod that exists."""
    pods = asking(2)
    for each in pods:
        each["metadata"]["uid"] = each["metadata"]["name"]
    decision = decided(cluster(), providing(), scenes.gang(minMember=2), pods)
    assert decision.outcome is Outcome.WAITING
    assert (
        f"pods llm-0..1 ask for {GPU} (DeviceClass {devices.DRIVER}), which no node's status.allocatable has, and such "
        "requests become resource claims only when pods are created; delete these pods so that they are recreated"
    ) in decision.message


def test_where_a_node_has_the_resource_only_such_nodes_are_planned() -> None:
    """The request stays as it is, because a claim could not use the nodes of a device plugin."""
    nodes = scenes.nodes(RACKS, ["rack"])
    nodes[0]["status"]["allocatable"][GPU] = "2"
    decision = decided(cluster(*nodes, n1=0), providing(), scenes.gang(minMember=2), asking(2))
    assert [each.node for each in decision.assignments] == ["n1", "n1"]
    assert f"not considered: devices of DeviceClass {devices.DRIVER} for {GPU}" in decision.message
    refused = decided(cluster(*nodes, n1=0), providing(), scenes.gang(minMember=3), asking(3))
    assert (refused.outcome, refused.proof) == (Outcome.UNPLACEABLE, "Unproven")


def test_the_demand_of_expected_pods_leaves_out_what_may_become_a_claim() -> None:
    """No node has the resource, so a capacity bound that contains it would keep the gang from being planned."""
    gangs, _, _ = scenes.picture(scenes.nodes(RACKS, ["rack"]), scenes.gang(minMember=2), asking(2))
    (gang,) = gangs

    def expected(member: Member) -> Member:
        metadata = structs.replace(member.pod.metadata, uid=seat_uid("w", "main", member.pod.metadata.name))
        return replace(member, pod=structs.replace(member.pod, metadata=metadata))

    later = replace(gang, members=tuple(expected(each) for each in gang.members))
    assert {name for name, _ in MinimumDemand(gang).demand_class.amounts} == {"cpu", "pods", GPU}
    assert {name for name, _ in MinimumDemand(later).demand_class.amounts} == {"cpu", "pods"}


def test_a_pod_that_is_made_again_has_the_claim_of_the_lost_one() -> None:
    """Its containers are those of the lost pod, from which the claim has taken the request."""
    container = {"name": "main", "image": "i", "resources": {"limits": {GPU: "2"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "llm", "namespace": "default", "uid": "u"},
        "spec": {"completions": 2, "parallelism": 2, "template": template},
    }
    metadata = {"name": "llm-abc", "namespace": "default", "uid": "1"}
    written = pod_of({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
    conversion = conversion_of(written.spec, {GPU: "gpu"})
    assert conversion is not None
    again = seat_again(job, Member(converted(written, conversion), "main", None))
    assert again is not None
    assert template_of(again.pod) == template_of(converted(written, conversion))
    assert as_written(again.pod).spec.containers[0].resources.limits == {GPU: "2"}


def test_a_level_below_the_node_binds_the_devices_of_converted_requests() -> None:
    """The requests have no claim before admission, but the gang does not wait for claims."""
    levels = [{"name": "nvlink", "deviceAttribute": f"{devices.DRIVER}/nvlinkDomain"}]
    below = scenes.topology(["rack"])
    below["spec"]["levels"] += levels
    gpus = [devices.device(f"gpu-{at}", attributes={"nvlinkDomain": domain}) for at, domain in enumerate((0, 1, 0, 1))]
    parts = [*scenes.nodes(RACKS, ["rack"]), devices.resource_slice("n1", gpus), providing()]
    run = scenes.solved(below, parts, scenes.gang(minMember=2, required="nvlink"), asking(2, 2))
    (decision,) = run.decisions
    assert decision.outcome is Outcome.PLACED, decision.message
    assert sorted(got(decision)) == ["n1/gpu-0 n1/gpu-2", "n1/gpu-1 n1/gpu-3"]
    three = scenes.solved(below, parts, scenes.gang(minMember=1, required="nvlink"), asking(1, 3)).decisions[0]
    assert (three.outcome, three.proof) == (Outcome.UNPLACEABLE, "Infeasible")
