"""Compares plans with a brute-force search, for gangs whose devices have domains below the node.

The brute-force search tries every node of every pod, and all devices of every node. It counts the goals by its own
means: nodes, waste, ranks, and after these the domains of the gang and of its members. The environment variable
`PHALANX_BRUTE_FORCE_LEVELS` is the number of instances.
"""

import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations, pairwise, product
from typing import NamedTuple

import device_scenes as devices
import pytest
import scenes
from test_levels_below_the_node import gpus, members, topology
from thorough import chunks

from planning.decision import Decision, Outcome
from solver.problem import Limits

pytestmark = pytest.mark.timeout(3600)
"""A slow machine may take its time."""

INSTANCES = int(os.environ.get("PHALANX_BRUTE_FORCE_LEVELS", "100"))
PATIENT = Limits(seconds=600.0)
"""CP-SAT's deterministic time alone ends a search, so that a slow machine proves the same results."""


class Instance(NamedTuple):
    """`nodes`: by node, the NVLink domain of each of its GPUs. `taken`: the GPUs of other pods, as node and position.

    `size`: the GPUs of each pod. `running`: the GPUs of a running member of the gang; none: no member runs.
    """

    nodes: dict[str, str]
    taken: frozenset[tuple[str, int]]
    pods: int
    size: int
    required: bool
    running: frozenset[tuple[str, int]]


class Goals(NamedTuple):
    """The goals of the solver (decision 2), and after them the domains of the gang and of the pods."""

    nodes: int
    waste: tuple[int, ...]
    ranks: int
    domains: int
    members: int


def random_instance(seed: int) -> Instance:
    """One to three nodes of two to six GPUs in up to three domains, and one to four pods."""
    draw = random.Random(seed)  # noqa: S311 -- drawn instances
    nodes = {
        f"n{place}": "".join(draw.choices("012", k=draw.randint(2, 6))) for place in range(1, draw.randint(1, 3) + 1)
    }
    every = [(node, place) for node, domains in nodes.items() for place in range(len(domains))]
    taken = frozenset(each for each in every if draw.random() < 0.25)
    size = draw.choice((1, 2, 2, 3))
    running = frozenset[tuple[str, int]]()
    free = [each for each in every if each not in taken]
    if free and draw.random() < 0.25:
        node, place = draw.choice(free)
        same = [(at, one) for at, one in free if at == node and nodes[at][one] == nodes[node][place]]
        running = frozenset(same[:size]) if len(same) >= size else running
    return Instance(nodes, taken, draw.randint(1, 4), size, draw.random() < 0.5, running)


def planned(instance: Instance) -> Decision:
    """The decision for the gang. A pod of another owner has all GPUs that are taken."""
    parts = [devices.resource_slice(node, gpus(domains)) for node, domains in instance.nodes.items()]
    for place, (node, gpu) in enumerate(sorted(instance.taken)):
        name = f"other-{place}"
        got = [(node, f"gpu-{gpu}")]
        entry = [{"name": "gpu", "resourceClaimName": name}]
        parts += [
            devices.claim(name, devices=got, pods=[name]),
            scenes.running(name, node, priority=100, cpu="1m", resourceClaims=entry),
        ]
    if instance.running:
        ((node, _), *_) = sorted(instance.running)
        got = [(node, f"gpu-{gpu}") for _, gpu in sorted(instance.running)]
        entry = [{"name": "gpu", "resourceClaimName": "mine"}]
        parts += [
            devices.claim("mine", devices.request(count=instance.size), devices=got, pods=["llm-9"]),
            scenes.running("llm-9", node, gang="llm", cpu="1m", resourceClaims=entry),
        ]
    level = {"required" if instance.required else "preferred": "nvlink"}
    run = scenes.solved(
        topology(racks=False),
        [scenes.node(node, {}, {"cpu": "64"}) for node in instance.nodes],
        devices.device_class(),
        devices.template(devices.request(count=instance.size), name="pair"),
        *parts,
        scenes.gang(minMember=instance.pods + bool(instance.running), **level),
        members(instance.pods, cpu="1m"),
        limits=PATIENT,
    )
    assert not run.mistakes, run.mistakes
    (decision,) = run.decisions
    return decision


def free_on(instance: Instance, node: str) -> list[int]:
    """The positions of the free GPUs of a node."""
    return [
        place for place in range(len(instance.nodes[node])) if (node, place) not in instance.taken | instance.running
    ]


@cache
def choices(instance_key: tuple[str, tuple[int, ...], int, int, bool, str]) -> frozenset[tuple[int, int]]:
    """All pairs of numbers with which a node can serve so many pods: domains of the gang, and summed over the pods.

    Empty if it cannot serve them. The key: the GPUs' domains, the free GPUs, the pods, their size, whether a pod needs
    one domain, and the domains that the gang has there already.
    """
    domains, free, pods, size, required, held = instance_key
    return frozenset(
        (len({*held, *(domain for each in some for domain in each)}), sum(map(len, some)))
        for some in _served(domains, free, pods, size, required=required)
    )


def _served(
    domains: str, free: tuple[int, ...], pods: int, size: int, *, required: bool
) -> Iterator[list[frozenset[str]]]:
    """Yield, for every choice of GPUs, the domains of each pod."""
    if pods == 0:
        yield []
        return
    for some in combinations(free, size):
        used = frozenset(domains[each] for each in some)
        if required and len(used) > 1:
            continue
        left = tuple(each for each in free if each not in some)
        for others in _served(domains, left, pods - 1, size, required=required):
            yield [used, *others]


def of_node(instance: Instance, node: str, pods: int) -> frozenset[tuple[int, int]]:
    """The pairs of numbers that `choices` returns for a node of the instance."""
    held = "".join(sorted({instance.nodes[at][place] for at, place in instance.running if at == node}))
    return choices((instance.nodes[node], tuple(free_on(instance, node)), pods, instance.size, instance.required, held))


def potential(instance: Instance, node: str) -> int:
    """The capacity of a node in GPUs: for pods of one domain, the GPUs of the gang's pods that it can serve."""
    free = len(free_on(instance, node))
    if not instance.required:
        return free
    most = max(pods for pods in range(min(instance.pods, free // instance.size) + 1) if of_node(instance, node, pods))
    return most * instance.size


def goals(instance: Instance, where: Sequence[str]) -> list[Goals]:
    """The goals of all plans with these nodes of the new pods; empty if there is none."""
    counts = Counter(where)
    at = {node for node, _ in instance.running}
    touched = sorted({*counts, *at})
    per_node = [of_node(instance, node, counts[node]) for node in touched]
    left = {node: potential(instance, node) - counts[node] * instance.size for node in instance.nodes}
    everywhere = sum(left.values())
    if len(touched) == 1:
        waste = (left[touched[0]], everywhere, 0)
    else:
        waste = (everywhere, sum(left[node] for node in touched), sum(left[node] > 0 for node in touched))
    ranked = [*where, *at]  # llm-9, which runs, has the last rank
    ranks = sum(one != other for one, other in pairwise(ranked))
    return [
        Goals(len(touched), waste, ranks, sum(each[0] for each in some), sum(each[1] for each in some) + len(at))
        for some in product(*per_node)
    ]


def every_plan(instance: Instance) -> list[Goals]:
    """The goals of all plans."""
    nodes = product(instance.nodes, repeat=instance.pods)
    return [each for where in nodes for each in goals(instance, where)]


def reported(decision: Decision) -> tuple[int, int, int]:
    """The plan's domains, the bound, and the domains summed over the pods."""
    (goal,) = decision.device_goals
    return goal.value, goal.bound, goal.parts["members"]


@pytest.mark.parametrize("seeds", chunks(INSTANCES, 50, fast=20))
def test_the_devices_are_in_the_fewest_domains_and_the_proof_is_right(seeds: range) -> None:
    for seed in seeds:
        instance = random_instance(seed)
        decision, plans = planned(instance), every_plan(instance)
        if decision.outcome is not Outcome.PLACED:
            assert (decision.proof, plans) == ("Infeasible", []), f"seed {seed}: {decision.message}"
            continue
        best = min(plans)
        where = [each.node for each in decision.assignments if not each.held]
        domains, bound, of_members = reported(decision)
        mine = goals(instance, where)
        assert min(mine)[:3] == best[:3], f"seed {seed}: {decision.message}"
        assert domains == min(mine).domains, f"seed {seed}: fewer domains on the chosen nodes"
        assert (domains, of_members) in {(each.domains, each.members) for each in mine}, f"seed {seed}"
        assert bound <= best.domains, f"seed {seed}: the bound is wrong"
        if decision.proof == "Optimal":
            assert (domains, of_members) == (best.domains, best.members), f"seed {seed}: not the best"
        assert (bound == domains) or decision.proof == "Feasible", f"seed {seed}"


SAMPLE = 120


@cache
def sample() -> list[tuple[Instance, Decision]]:
    """Instances with their decisions."""
    return [(instance, planned(instance)) for instance in map(random_instance, range(SAMPLE))]


def test_the_instances_decide_something() -> None:
    """Plans that are proven, plans that are not, several domains, rejections, and running members occur."""
    placed = [(instance, each) for instance, each in sample() if each.outcome is Outcome.PLACED]
    assert 0.3 * SAMPLE < len(placed) < SAMPLE
    assert sum(each.proof == "Optimal" for _, each in placed) > len(placed) / 2
    assert any(each.proof == "Feasible" for _, each in placed)
    assert sum(reported(each)[0] > 1 for _, each in placed) > SAMPLE / 20
    assert sum(bool(instance.running) for instance, _ in placed) > SAMPLE / 20
    assert sum(
        instance.required and reported(each)[0] < each.goals[0].value + instance.pods for instance, each in placed
    )
