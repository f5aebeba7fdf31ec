"""Compares plans with a brute-force search over devices, for gangs whose pods claim devices.

Both read the same manifests. `device_by_device` is the brute-force search. The environment variable
`PHALANX_BRUTE_FORCE_DEVICES` is the number of instances (400 by default).
"""

import copy
import os
from collections.abc import Callable
from functools import cache

import pytest
import scenes
from device_by_device import (
    Best,
    Chosen,
    Instance,
    Manifest,
    One,
    allowed,
    best,
    devices_of,
    name,
    number,
    rack,
    valid,
)
from device_by_device import got as by_request
from random_devices import random_instance
from thorough import chunks

from planning.decision import Assignment, Decision, Outcome
from solver.problem import Limits

pytestmark = pytest.mark.timeout(3600)
"""A slow machine may take its time."""

INSTANCES = int(os.environ.get("PHALANX_BRUTE_FORCE_DEVICES", "400"))
SAMPLE = 400
"""The number of instances over which the tests count how often each feature decides the result."""
PATIENT = Limits(seconds=600.0)
"""CP-SAT's deterministic time alone ends a search, so that a slow machine proves the same results."""


def planned(instance: Instance) -> Decision:
    """The decision for the gang."""
    run = scenes.solved(
        scenes.topology(["rack"]),
        scenes.gang("g", minMember=len(instance.members)),
        *map(copy.deepcopy, instance),
        limits=PATIENT,
    )
    assert not run.mistakes, run.mistakes
    (decision,) = run.decisions
    return decision


def told(instance: Instance, decision: Decision) -> Best:
    """Return the values of the plan's first goals."""
    nodes = {name(node): node for node in instance.nodes}
    used = {each.node for each in decision.assignments}
    return Best(len(decision.evictions), len({rack(nodes[each]) for each in used}), len(used))


def stands(instance: Instance, decision: Decision) -> bool:
    """Whether every member has got what it claims, of devices that are free after the evictions."""
    gone = [each.name for each in decision.evictions]
    nodes = {name(node): node for node in instance.nodes}
    where = {each.member.pod.metadata.name: nodes[each.node] for each in decision.assignments}
    got = {each.member.pod.metadata.name: (each.node, chosen_by(instance, each)) for each in decision.assignments}
    costs = all(costs_what_it_should(instance, each) for each in decision.assignments)
    placed = allowed(instance, gone, [where[name(pod)] for pod in instance.members])
    return costs and placed and valid(instance, gone, got)


def chosen_by(instance: Instance, assignment: Assignment) -> list[Chosen]:
    """Return the devices of a member's claims, as the brute-force search describes them."""
    every = devices_of(instance, assignment.node)
    return [
        [
            One(
                one.request,
                (key := (one.device.pool, one.device.device)),
                every[key],
                one.admin_access,
                one.shared,
                {title: number(amount) for title, amount in one.consumed},
            )
            for one in claim.devices
        ]
        for claim in assignment.devices
    ]


def costs_what_it_should(instance: Instance, assignment: Assignment) -> bool:
    """Whether each device of a member is consumed as its request and its slice say."""
    pod = next(each for each in instance.members if name(each) == assignment.member.pod.metadata.name)
    for claim, chosen in zip(assignment.devices, chosen_by(instance, assignment), strict=True):
        if claim.pod_claim:
            (entry,) = (each for each in pod["spec"]["resourceClaims"] if each["name"] == claim.pod_claim)
            template = next(each for each in instance.templates if name(each) == entry["resourceClaimTemplateName"])
            spec = template["spec"]["spec"]["devices"]
        else:
            spec = next(each for each in instance.claims if name(each) == claim.name)["spec"]["devices"]
        requests = {each["name"]: each["exactly"] for each in spec["requests"] if "exactly" in each}
        requests |= {
            f"{each['name']}/{one['name']}": one for each in spec["requests"] for one in each.get("firstAvailable", ())
        }
        if any(one != by_request(one.title, one.key, one.device, requests[one.title]) for one in chosen):
            return False
    return True


@pytest.mark.parametrize("seeds", chunks(INSTANCES, 100, fast=20))
def test_the_plan_is_allowed_and_the_best_and_a_no_is_one(seeds: range) -> None:
    for seed in seeds:
        instance = random_instance(seed)
        decision, expected = planned(instance), best(instance)
        if decision.outcome is Outcome.PLACED:
            assert stands(instance, decision), f"seed {seed}: {decision.message}"
            assert expected is not None
            found = told(instance, decision)
            assert found >= expected, f"seed {seed}"
            if decision.proof == "Optimal":
                assert found.victims == expected.victims, f"seed {seed}"
                assert expected.victims or found == expected, f"seed {seed}"
        elif decision.proof == "Infeasible":
            assert expected is None, f"seed {seed}: {decision.message}"


def requests_with(change: Callable[[Manifest], None]) -> Callable[[Instance], None]:
    """Return a function that changes every request and alternative of an instance's templates and unused claims."""

    def apply(instance: Instance) -> None:
        for devices in specs(instance):
            for request in devices["requests"]:
                for each in [request["exactly"]] if "exactly" in request else request["firstAvailable"]:
                    change(each)

    return apply


def specs(instance: Instance) -> list[Manifest]:
    """The `spec.devices` of the templates, and of the claims that have no devices yet."""
    unused = [each["spec"]["devices"] for each in instance.claims if "status" not in each]
    return [*(each["spec"]["spec"]["devices"] for each in instance.templates), *unused]


def every_device(change: Callable[[Manifest], None]) -> Callable[[Instance], None]:
    """Return a function that changes every device of an instance."""

    def apply(instance: Instance) -> None:
        for each in instance.slices:
            for device in each["spec"]["devices"]:
                change(device)

    return apply


def without_constraints(kind: str) -> Callable[[Instance], None]:
    """Return a function that removes the constraints of one kind."""

    def apply(instance: Instance) -> None:
        for devices in specs(instance):
            devices["constraints"] = [each for each in devices.get("constraints", ()) if kind not in each]

    return apply


def without_claim(title: str) -> Callable[[Instance], None]:
    """Return a function that removes a named claim from the members."""

    def apply(instance: Instance) -> None:
        for pod in instance.members:
            entries = pod["spec"]["resourceClaims"]
            pod["spec"]["resourceClaims"] = [each for each in entries if each.get("resourceClaimName") != title]

    return apply


def one_request(instance: Instance) -> None:
    """Remove all requests but the first of each claim."""
    for devices in specs(instance):
        del devices["requests"][1:]


def preferred_only(instance: Instance) -> None:
    """Remove all alternatives but the preferred one."""
    for devices in specs(instance):
        for request in devices["requests"]:
            if "firstAvailable" in request:
                del request["firstAvailable"][1:]


def exact(request: Manifest) -> None:
    """Turn "all devices" into one device."""
    if request.pop("allocationMode", None):
        request["count"] = 1


def none_evictable(instance: Instance) -> None:
    """Give all running pods a high priority."""
    for pod in instance.running:
        pod["spec"]["priority"] = 20


def nothing_allocated(instance: Instance) -> None:
    """Free the devices of running pods."""
    instance.claims[:] = [each for each in instance.claims if not name(each).startswith("run-")]


def own_pools(instance: Instance) -> None:
    """Put slices of old generations into pools of their own."""
    for each in instance.slices:
        if name(each).endswith("-old"):
            each["spec"]["pool"]["name"] += "-old"


def complete_pools(instance: Instance) -> None:
    """Let every pool consist of the slices that there are."""
    for each in instance.slices:
        each["spec"]["pool"]["resourceSliceCount"] = 1


def alone(instance: Instance) -> None:
    """Let every device have one holder at most."""
    for each in instance.slices:
        for device in each["spec"]["devices"]:
            device.pop("allowMultipleAllocations", None)
    for claim in instance.claims:
        for result in results_of(claim):
            result.pop("shareID", None)
            result.pop("consumedCapacity", None)


def no_policies(device: Manifest) -> None:
    """Remove the request policies of a device's capacities."""
    for capacity in device.get("capacity", {}).values():
        capacity.pop("requestPolicy", None)


def nothing_consumed(instance: Instance) -> None:
    """Let the shares of other claims consume nothing."""
    for claim in instance.claims:
        for result in results_of(claim):
            result.pop("consumedCapacity", None)


def results_of(claim: Manifest) -> list[Manifest]:
    """The devices of a claim."""
    found: list[Manifest] = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    return found


FEATURES: dict[str, Callable[[Instance], None]] = {
    "selectors": requests_with(lambda request: void(request.pop("selectors", None))),
    "counts": requests_with(lambda request: void(request.update(count=1) if "count" in request else None)),
    "several requests": one_request,
    "matchAttribute": without_constraints("matchAttribute"),
    "distinctAttribute": without_constraints("distinctAttribute"),
    "All": requests_with(exact),
    "adminAccess": requests_with(lambda request: void(request.pop("adminAccess", None))),
    "firstAvailable": preferred_only,
    "taints": every_device(lambda device: void(device.pop("taints", None))),
    "taint rules": lambda instance: instance.rules.clear(),
    "tolerations": requests_with(lambda request: void(request.pop("tolerations", None))),
    "counters": every_device(lambda device: void(device.pop("consumesCounters", None))),
    "shared claims": without_claim("shared"),
    "allocated claims": without_claim("early"),
    "devices of running pods": nothing_allocated,
    "evictions": none_evictable,
    "shared devices": alone,
    "requests for capacity": requests_with(lambda request: void(request.pop("capacity", None))),
    "request policies": every_device(no_policies),
    "consumed capacity": nothing_consumed,
    "old generations": own_pools,
    "incomplete pools": complete_pools,
}
"""By feature, a function that removes it from an instance."""


def void(_: object) -> None:
    """Ignore a value."""


@cache
def decided_by() -> dict[str, int]:
    """Return how many instances of the sample have another best plan, or none, without each feature."""
    found = dict.fromkeys(FEATURES, 0)
    for seed in range(SAMPLE):
        expected = best(random_instance(seed))
        for feature, remove in FEATURES.items():
            changed = random_instance(seed)
            remove(changed)
            found[feature] += best(changed) != expected
    return found


@pytest.mark.parametrize("feature", FEATURES)
def test_each_feature_decides_one_instance_in_a_hundred(feature: str) -> None:
    assert decided_by()[feature] >= SAMPLE / 100


def parted(instance: Instance) -> tuple[Instance, Instance] | None:
    """Return the instance with the first member alone, and with the others; None if they share a claim, or are few."""
    if len(instance.members) < 2 or any(name(each) == "shared" for each in instance.claims):
        return None
    return instance._replace(members=instance.members[:1]), instance._replace(members=instance.members[1:])


@pytest.mark.parametrize("seeds", chunks(INSTANCES, 100, fast=10))
def test_two_gangs_are_accepted_in_their_order_and_share_the_devices(seeds: range) -> None:
    for seed in seeds:
        instance = random_instance(seed)
        parts = parted(instance)
        if parts is None:
            continue
        both = copy.deepcopy(instance)
        for pod in both.members[1:]:
            pod["metadata"]["labels"]["phalanx.dev/gang"] = "h"
        gangs = [scenes.gang("g", minMember=1), scenes.gang("h", minMember=len(instance.members) - 1)]
        run = scenes.solved(scenes.topology(["rack"]), gangs, *both, limits=PATIENT)
        first, second = sorted(run.decisions, key=lambda each: each.key.name)
        expected = best(parts[0]) is not None
        then = best(instance if expected else parts[1]) is not None
        for decision, fits in ((first, expected), (second, then)):
            if decision.proof == "Infeasible":
                assert not fits, f"seed {seed}: {decision.message}"
            if decision.outcome is Outcome.PLACED and first.outcome is not Outcome.WAITING:
                assert fits or first.proof == "Unproven", f"seed {seed}: {decision.message}"
        placed = [each for each in (first, second) if each.outcome is Outcome.PLACED]
        if placed:
            assert shared_out(instance, placed), f"seed {seed}"


def shared_out(instance: Instance, decisions: list[Decision]) -> bool:
    """Whether the devices of several plans are valid together."""
    gone = [each.name for decision in decisions for each in decision.evictions]
    got: dict[str, tuple[str, list[Chosen]]] = {}
    for decision in decisions:
        for each in decision.assignments:
            got[each.member.pod.metadata.name] = each.node, chosen_by(instance, each)
    return valid(instance, gone, got)
