"""Compares plans with a brute-force search over devices, for gangs whose pods claim devices.

Both read the same manifests. `device_by_device` is the brute-force search. The environment variable
`PHALANX_BRUTE_FORCE_DEVICES` is the number of instances (400 by default).
"""

import copy
import os

import pytest
import scenes
from device_by_device import Best, Chosen, Instance, allowed, best, devices_of, name, rack, valid
from random_devices import random_instance
from thorough import chunks

from planning.decision import Decision, Outcome
from solver.problem import Limits

pytestmark = pytest.mark.timeout(3600)
"""A slow machine may take its time."""

INSTANCES = int(os.environ.get("PHALANX_BRUTE_FORCE_DEVICES", "400"))
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
    got: dict[str, tuple[str, list[Chosen]]] = {}
    for each in decision.assignments:
        every = devices_of(instance, each.node)
        chosen: list[Chosen] = [
            [
                (one.request, (key := (one.device.pool, one.device.device)), every[key], one.admin_access)
                for one in claim.devices
            ]
            for claim in each.devices
        ]
        got[each.member.pod.metadata.name] = each.node, chosen
    return allowed(instance, gone, [where[name(pod)] for pod in instance.members]) and valid(instance, gone, got)


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
