"""Compares plans with a brute-force search, for gangs whose pods depend on each other and on running pods.

Both read the same manifests. `pod_by_pod` is the brute-force search. The environment variable
`PHALANX_BRUTE_FORCE_INSTANCES` is the number of instances (620 by default).
"""

import copy
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import combinations
from typing import Any

import pytest
import scenes
from pod_by_pod import (
    Best,
    Cluster,
    Manifest,
    Place,
    allowed,
    at,
    best,
    goals,
    is_near,
    means,
    name,
    plans,
    priority,
    terms,
)
from random_pods import random_cluster, random_pair
from thorough import chunks

from planning.decision import Decision, Outcome
from solver.problem import Limits

pytestmark = pytest.mark.timeout(3600)
"""A slow machine may take its time."""

INSTANCES = int(os.environ.get("PHALANX_BRUTE_FORCE_INSTANCES", "620"))
PATIENT = Limits(seconds=600.0)
"""CP-SAT's deterministic time alone ends a search, so that a slow machine proves the same results."""
CHUNK = 100
SAMPLE = 600
"""The number of instances over which the tests count how often each feature decides the result."""


def planned(cluster: Cluster) -> Decision:
    """The decision for the gang."""
    (decision,) = decisions(cluster, scenes.gang("g", minMember=len(cluster.members)))
    return decision


def decisions(cluster: Cluster, *gangs: dict[str, Any]) -> Sequence[Decision]:
    """The decisions for some gangs."""
    topology = {
        "apiVersion": "phalanx.dev/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "t"},
        "spec": {"levels": [{"name": "rack", "nodeLabel": "rack"}]},
    }
    parts = [topology, *gangs, *map(dict, (*cluster.nodes, *cluster.running, *cluster.members))]
    return scenes.solved(parts, limits=PATIENT).decisions


def told(cluster: Cluster, decision: Decision) -> Best:
    """Return the values of the plan's first goals, computed from its assignments and evictions."""
    nodes = {name(node): node for node in cluster.nodes}
    used = [nodes[each.node] for each in decision.assignments]
    return goals(cluster, [each.name for each in decision.evictions], used)


def stands(cluster: Cluster, decision: Decision) -> bool:
    """Whether the brute-force search allows the node of every member."""
    nodes = {name(node): node for node in cluster.nodes}
    where = {each.member.pod.metadata.name: nodes[each.node] for each in decision.assignments}
    gone = [each.name for each in decision.evictions]
    return allowed(cluster, gone, [where[name(pod)] for pod in cluster.members])


@pytest.mark.parametrize("seeds", chunks(INSTANCES, CHUNK, fast=20))
def test_the_plan_is_allowed_and_the_best_and_a_no_is_one(seeds: range) -> None:
    for seed in seeds:
        cluster = random_cluster(seed)
        decision = planned(cluster)
        expected = best(cluster)
        if decision.outcome is Outcome.PLACED:
            assert stands(cluster, decision), f"seed {seed}: {decision.message}"
            assert expected is not None
            assert told(cluster, decision) >= expected, f"seed {seed}"
            if decision.proof == "Optimal":
                assert told(cluster, decision) == expected, f"seed {seed}"
        elif decision.proof == "Infeasible":
            assert expected is None, f"seed {seed}: {decision.message}"
        if not spreads(cluster) and not chained(cluster):
            assert decision.proof in ("Optimal", "Infeasible"), f"seed {seed}"


def spreads(cluster: Cluster) -> bool:
    """Whether members have topology spread constraints: then not every result is proven."""
    return any("topologySpreadConstraints" in pod["spec"] for pod in cluster.members)


def chained(cluster: Cluster) -> bool:
    """Whether a member has affinity to a member with another affinity. Such members may wait for each other."""
    near = [(pod, terms(pod, "podAffinity")) for pod in cluster.members if terms(pod, "podAffinity")]
    return any(its != mine and all(means(term, other) for term in mine) for _, mine in near for other, its in near)


def of_members(*fields: str) -> Callable[[Cluster], Cluster]:
    """Return a function that removes these fields, given by their paths, from all members of a cluster."""
    return lambda cluster: cluster._replace(members=[without(pod, fields) for pod in cluster.members])


def of_victims(*fields: str) -> Callable[[Cluster], Cluster]:
    """The cluster whose pods of lower priority lack these fields."""
    return lambda cluster: cluster._replace(
        running=[without(pod, fields) if priority(pod) < 10 else pod for pod in cluster.running]
    )


def without(pod: Manifest, fields: Iterable[str]) -> Manifest:
    """The pod without some fields of its spec."""
    bare: dict[str, Any] = copy.deepcopy(dict(pod))
    for field in fields:
        *path, last = field.split(".")
        place = bare["spec"]
        for key in path:
            place = place[int(key)] if key.isdigit() else place.get(key, {})
        place.pop(last, None)
    return bare


def alike(cluster: Cluster) -> Cluster:
    """Return the cluster with every member like the first one, but with its own name and requests."""
    first = cluster.members[0]
    members = []
    for pod in cluster.members:
        member: dict[str, Any] = copy.deepcopy(dict(first))
        member["metadata"]["name"] = name(pod)
        member["spec"]["containers"][0]["resources"] = pod["spec"]["containers"][0]["resources"]
        members.append(member)
    return cluster._replace(members=members)


PORTS, APART, NEAR = "containers.0.ports", "affinity.podAntiAffinity", "affinity.podAffinity"
FEATURES: Mapping[str, Callable[[Cluster], Cluster]] = {
    "ports of members": of_members(PORTS),
    "anti-affinity of members": of_members(APART),
    "affinity of members": of_members(NEAR),
    "topology spread of members": of_members("topologySpreadConstraints"),
    "node selectors of members": of_members("nodeSelector"),
    "ports of victims": of_victims(PORTS),
    "anti-affinity of victims": of_victims(APART),
    "members that differ": alike,
}


@cache
def bests() -> list[tuple[Cluster, Best | None]]:
    return [(cluster, best(cluster)) for cluster in map(random_cluster, range(SAMPLE))]


@pytest.mark.long
@pytest.mark.thorough
@pytest.mark.parametrize("name", FEATURES)
def test_the_feature_decides_in_a_hundredth_of_the_instances(name: str) -> None:
    assert sum(best(FEATURES[name](cluster)) != found for cluster, found in bests()) / SAMPLE >= 0.01


@pytest.mark.parametrize("seeds", chunks(INSTANCES // 4, CHUNK, fast=20))
def test_two_gangs_of_one_priority_bear_each_other(seeds: range) -> None:
    for seed in seeds:
        cluster, gangs = random_pair(seed)
        made = [scenes.gang(gang, minMember=gangs.count(gang)) for gang in "gh" if gang in gangs]
        found = decisions(cluster, *made)
        faults = faults_of_pair(cluster, found)
        assert not faults, f"seed {seed}: {faults}"
        both = best(cluster) is not None
        assert not (both and any(each.proof == "Infeasible" for each in found)), f"seed {seed}: both have a place"
        assert spreads(cluster) or chained(cluster) or all(each.proof != "Unproven" for each in found), f"seed {seed}"


def faults_of_pair(cluster: Cluster, found: Sequence[Decision]) -> list[str]:
    """Return the faults of the decisions for two gangs in their order.

    A gang's plan must be allowed beside the gangs before it, or beside all gangs that are placed. For example, a gang
    of two pods that spread over two racks may have both in one rack only if a later gang has its pod in the other. The
    plan of the second gang must not evict a pod that the first gang's members have inter-pod affinity to.
    """
    nodes = {name(node): node for node in cluster.nodes}
    faults: list[str] = []
    running, promised = [*cluster.running], list[Place]()
    for gang in found:
        mine = [pod for pod in cluster.members if pod["metadata"]["labels"]["phalanx.dev/gang"] == gang.key.name]
        now = Cluster(cluster.nodes, running, mine)
        where = {each.member.pod.metadata.name: nodes[each.node] for each in gang.assignments}
        gone = [each.name for each in gang.evictions]
        placed = [where[name(pod)] for pod in mine if where]
        if where and not (
            (allowed(now, gone, placed) or allowed_together(cluster, found)) and promises_kept(now, promised, gone)
        ):
            faults.append(f"the plan of {gang.key.name} is not allowed")
        if gang.proof == "Infeasible" and has_place(now, promised):
            faults.append(f"{gang.key.name} has a place")
        bound = [at_node(pod, node) for pod, node in zip(mine, placed, strict=False)]
        running = [pod for pod in running if name(pod) not in gone] + bound
        others = [(pod, at(cluster, pod)) for pod in running]
        promised = [
            (pod, at(cluster, pod)) for pod in bound if meant(pod, [other for other in others if other[0] is not pod])
        ]
    return faults


def allowed_together(cluster: Cluster, found: Sequence[Decision]) -> bool:
    """Whether the plans of both gangs are allowed as one plan."""
    nodes = {name(node): node for node in cluster.nodes}
    where = {each.member.pod.metadata.name: nodes[each.node] for gang in found for each in gang.assignments}
    gone = [each.name for gang in found for each in gang.evictions]
    return all(name(pod) in where for pod in cluster.members) and allowed(
        cluster, gone, [where[name(pod)] for pod in cluster.members]
    )


def meant(pod: Manifest, others: Sequence[Place]) -> bool:
    """Whether the pod's affinity terms match any of the other pods."""
    return any(all(means(term, other) for term in terms(pod, "podAffinity")) for other, _ in others)


def promises_kept(cluster: Cluster, promised: Sequence[Place], gone: Sequence[str]) -> bool:
    """Whether the affinity of each promised pod still holds without the evicted pods, whichever pods arrive."""
    stay = [(pod, at(cluster, pod)) for pod in cluster.running if name(pod) not in gone]
    return all(is_near(pod, node, [each for each in stay if each[0] is not pod]) for pod, node in promised)


def has_place(cluster: Cluster, promised: Sequence[Place]) -> bool:
    """Whether the gang has a plan that keeps the affinity of all promised pods."""
    low = [name(pod) for pod in cluster.running if priority(pod) < priority(cluster.members[0])]
    return any(
        promises_kept(cluster, promised, gone)
        for count in range(len(low) + 1)
        for gone in combinations(low, count)
        for _ in plans(cluster, gone)
    )


def at_node(pod: Manifest, node: Manifest) -> Manifest:
    """Return a copy of the pod that runs on the node."""
    return {**pod, "spec": {**pod["spec"], "nodeName": name(node)}}
