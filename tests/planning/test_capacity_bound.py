"""The capacity bound is sound: the planner places no gang that is above the bound."""

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest
import scenes
from msgspec import structs
from random_pods import random_cluster
from thorough import chunks, has_rare_cases

from controller.scheduling import capacity_bound, eligibility_cache
from controller.scheduling.capacity_bound import CapacityBound
from controller.scheduling.demand import MinimumDemand
from planning.decision import Outcome
from planning.planner import plan_gang

pytestmark = pytest.mark.repetitive

Manifest = dict[str, Any]
CHUNK, CHUNKS = 500, 4
LEVELS = ("zone", "rack")
TOPOLOGY = {
    "apiVersion": "phalanx.dev/v1alpha1",
    "kind": "Topology",
    "metadata": {"name": "net"},
    "spec": {"levels": [{"name": level, "nodeLabel": level} for level in LEVELS]},
}


def drawn(seed: int) -> list[Manifest]:
    """Return a random gang that may require one domain, for all or for one set, and nodes that not all pods may use."""
    random, cluster = Random(f"counted {seed}"), random_cluster(seed)  # noqa: S311 - to be repeatable, not secret
    nodes = [dict(each) for each in cluster.nodes]
    for node in nodes:
        if random.random() < 0.3:
            node["spec"] = random.choice(
                ({"unschedulable": True}, {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]})
            )
    pods, names = [dict(each) for each in cluster.members], ["main"]
    if random.random() < 0.5:
        names = ["a", "b"]
    for pod in pods:
        chosen = random.choice(names)
        labels = pod["metadata"]["labels"] | ({"phalanx.dev/pod-set": chosen} if len(names) > 1 else {})
        pod["metadata"] = pod["metadata"] | {"labels": labels}
        if random.random() < 0.3:
            pod["spec"] = pod["spec"] | {"tolerations": [{"key": "gpu", "operator": "Exists"}]}
    spec: Manifest = {"minMember": random.randint(1, len(pods))}
    if random.random() < 0.6:
        spec["required"] = random.choice((*LEVELS, "kubernetes.io/hostname"))
    if len(names) > 1:
        counts = Counter(pod["metadata"]["labels"]["phalanx.dev/pod-set"] for pod in pods)
        spec["podSets"] = [
            {"name": each, "count": counts[each], "minCount": random.randint(0, counts[each])}
            for each in names
            if counts[each]
        ]
        for each in spec["podSets"]:
            if random.random() < 0.5 and "required" not in spec:
                each["required"] = random.choice(LEVELS)
    return [TOPOLOGY, scenes.gang("g", **spec), *nodes, *map(dict, cluster.running), *pods]


@pytest.mark.parametrize("seeds", chunks(CHUNKS * CHUNK, CHUNK, fast=150, fresh=37))
def test_whoever_has_a_place_is_not_counted_out(seeds: range) -> None:
    seen: Counter[str] = Counter()
    for seed in seeds:
        gangs, snapshot, topologies = scenes.picture(drawn(seed))
        bound = CapacityBound()
        for gang in gangs:
            open_ = bound.update(snapshot, topologies).may_hold(MinimumDemand(gang))
            sums = CapacityBound().update(snapshot, ()).may_hold(MinimumDemand(gang))
            assert sums or not open_, seed
            assert open_ or plan_gang(gang, snapshot, topologies).outcome is not Outcome.PLACED, seed
            seen["open" if open_ else "by its sum" if not sums else "by domains or nodes"] += 1
    if has_rare_cases(seeds):
        assert seen["by its sum"] >= len(seeds) / 100, seen
        assert seen["by domains or nodes"] >= len(seeds) / 20, seen


RACKS = """
b0/r0: n0 n1
b0/r1: n2 n3
b1/r2: n4 n5
"""
"""Of 8 cpu each; n1 and n3 are full, n4 has a taint, n5 is an old model: 8 cpu are free in each rack but the last."""
IN_RACK = {"required": "rack"}
SSD: dict[str, Any] = {"nodeSelector": {"disk": "ssd"}}
TOLERANT: dict[str, Any] = {"tolerations": [{"key": "gpu", "operator": "Exists"}]}
COUNTED: list[tuple[str, Manifest, list[Manifest], bool]] = [
    # case, the gang's spec, its pods, whether counting leaves a place possible
    ("two nodes of two racks", {}, scenes.members(2), True),
    ("two nodes of one rack", IN_RACK, scenes.members(2), False),
    ("one node of one rack", IN_RACK, scenes.members(2, cpu=4), True),
    ("two in one block", {"required": "block"}, scenes.members(2), True),
    ("three in one block", {"required": "block"}, scenes.members(3), False),
    ("three of four may start", {"required": "block", "minMember": 2}, scenes.members(3), True),
    ("five that fit in no node whole", {}, scenes.members(5, cpu=5), False),
    ("with the tainted one", {}, scenes.members(4, **TOLERANT), True),
    ("without it", {}, scenes.members(4), False),
    ("two in the rack of the tainted one", IN_RACK, scenes.members(2, **TOLERANT), True),
    (
        "one of them may not go there",
        IN_RACK,
        [scenes.pod("x", gang="llm"), scenes.pod("y", gang="llm", **TOLERANT)],
        True,
    ),
    ("new models only", {}, scenes.members(3, **SSD), False),
    ("two of these", {}, scenes.members(2, **SSD), True),
    (
        "of two sets the large one needs two nodes of one rack",
        {"podSets": [{"name": "one", "count": 1}, {"name": "two", "count": 2, "required": "rack"}]},
        [
            scenes.pod("a", gang="llm", pod_set="one", cpu=1),
            *(scenes.pod(f"b{n}", gang="llm", pod_set="two") for n in "12"),
        ],
        False,
    ),
    (
        "it would be enough if one of it started",
        {
            "minMember": 2,
            "podSets": [{"name": "one", "count": 1}, {"name": "two", "count": 2, "minCount": 1, "required": "rack"}],
        },
        [
            scenes.pod("a", gang="llm", pod_set="one", cpu=1),
            *(scenes.pod(f"b{n}", gang="llm", pod_set="two") for n in "12"),
        ],
        True,
    ),
]


def racks() -> list[Manifest]:
    nodes = scenes.nodes(RACKS, ("block", "rack"))
    for node in nodes:
        if node["metadata"]["name"] != "n5":
            node["metadata"]["labels"]["disk"] = "ssd"
        if node["metadata"]["name"] == "n4":
            node["spec"] = {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}
    return [
        scenes.topology(("block", "rack")),
        *nodes,
        *(scenes.running(f"on-{name}", name, 10) for name in ("n1", "n3")),
    ]


@pytest.mark.parametrize(("what", "spec", "pods", "may"), COUNTED, ids=[each[0] for each in COUNTED])
def test_what_domains_and_nodes_leave_open(what: str, spec: Manifest, pods: list[Manifest], *, may: bool) -> None:
    gangs, snapshot, topologies = scenes.picture([*racks(), scenes.gang(**{"minMember": len(pods), **spec}), *pods])
    assert CapacityBound().update(snapshot, topologies).may_hold(MinimumDemand(gangs[0])) is may, what


def test_it_is_looked_again_at_nodes_that_have_changed() -> None:
    """The count checks changed nodes again, and no other nodes."""
    bound = CapacityBound()
    gangs, before, topologies = scenes.picture([*racks(), scenes.gang(minMember=3), *scenes.members(3, **SSD)])
    assert not bound.update(before, topologies).may_hold(MinimumDemand(gangs[0]))
    assert bound.checks == 4, "at those with room"
    old = before.nodes[-1]
    labels = {**old.node.metadata.labels, "disk": "ssd"}
    new = replace(old, node=structs.replace(old.node, metadata=structs.replace(old.node.metadata, labels=labels)))
    after = replace(before, nodes=(*before.nodes[:-1], new))
    assert bound.update(after, topologies).may_hold(MinimumDemand(gangs[0]))
    assert bound.checks == 5


def test_there_is_a_limit_to_looking_and_to_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    """One tenant's gangs with ever different demands cost a reconcile a bounded time only.

    Beyond the limit, counting rules out no gang.
    """
    gangs, snapshot, topologies = scenes.picture([*racks(), scenes.gang(minMember=3), *scenes.members(3, **SSD)])
    monkeypatch.setattr(eligibility_cache, "MOST_CHECKS", 3)
    assert CapacityBound().update(snapshot, topologies).may_hold(MinimumDemand(gangs[0]))
    monkeypatch.undo()
    monkeypatch.setattr(capacity_bound, "MOST_COUNTED", 0)
    assert CapacityBound().update(snapshot, topologies).may_hold(MinimumDemand(gangs[0]))
    monkeypatch.undo()
    assert not CapacityBound().update(snapshot, topologies).may_hold(MinimumDemand(gangs[0]))
