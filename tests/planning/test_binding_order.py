"""The order in which the stock scheduler can bind a plan's members, compared with a search that tries every order."""

from collections.abc import Sequence
from itertools import combinations
from random import Random
from typing import Any

import msgspec
import pytest
import scenes
from pod_by_pod import Cluster, Manifest, Place, at, bound_in_some_order, is_even, is_near, means, name, priority
from random_pods import random_cluster

from cluster.capturing import snapshot_of
from kube.objects import Node, Pod
from planning.scheduler_rules.binding_order import BindingOrder

ZONE = "zone"
SPREAD: dict[str, Any] = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "a"}},
        }
    ]
}


def drawn(seed: int) -> tuple[Cluster, list[Place]]:
    """A random cluster, most of whose members are spread, and a node for each member."""
    draw = Random(f"order {seed}")  # noqa: S311 - repeatable, not secret
    cluster = random_cluster(seed)
    for member in cluster.members:
        if draw.random() < 0.5:
            app = draw.choice("ab")
            constraint = {**SPREAD["topologySpreadConstraints"][0], "topologyKey": draw.choice(("rack", ZONE))}
            member["spec"]["topologySpreadConstraints"] = [
                {**constraint, "labelSelector": {"matchLabels": {"app": app}}}
            ]
    return cluster, [(member, draw.choice(cluster.nodes)) for member in cluster.members]


def order_of(cluster: Cluster, places: Sequence[Place]) -> BindingOrder:
    """The order of a plan without victims."""
    snapshot = snapshot_of(msgspec.convert(cluster.nodes, list[Node]), msgspec.convert(cluster.running, list[Pod]))
    members = [(msgspec.convert(pod, Pod), name(node)) for pod, node in places]
    return BindingOrder(members, snapshot, priority=10)


def there(cluster: Cluster) -> list[Place]:
    """The pods that run, with their nodes."""
    return [(pod, at(cluster, pod)) for pod in cluster.running]


@pytest.mark.parametrize("seeds", [range(start, start + 100) for start in range(0, 600, 100)])
def test_an_order_is_found_exactly_where_one_exists_and_the_scheduler_accepts_it(seeds: range) -> None:
    found = 0
    for seed in seeds:
        cluster, places = drawn(seed)
        order = order_of(cluster, places).order()
        assert (order is not None) == bound_in_some_order(there(cluster), places, cluster.nodes), f"seed {seed}"
        bound = there(cluster)
        for place in [places[position] for position in order or ()]:
            assert is_near(*place, bound), f"seed {seed}"
            assert is_even(*place, [*bound, place], cluster.nodes), f"seed {seed}"
            bound.append(place)
        found += order is not None
    assert 10 < found < 90


@pytest.mark.parametrize("seeds", [range(start, start + 100) for start in range(0, 600, 100)])
def test_a_member_that_could_evict_is_released_once_no_order_of_its_siblings_makes_the_scheduler_refuse_it(
    seeds: range,
) -> None:
    held_back = 0
    for seed in seeds:
        cluster, places = drawn(seed)
        order = order_of(cluster, places)
        if order.order() is None:
            continue
        released = order.released_now([True] * len(places))
        held_back += len(released) < len(places)
        first = (order.order() or ())[0]
        assert not places or first in released, f"seed {seed}"
        for count, position in enumerate(released):
            if could_evict(cluster, places[position]):
                earlier = [places[each] for each in released[:count]]
                for size in range(len(earlier) + 1):
                    for bound in combinations(earlier, size):
                        now = [*there(cluster), *bound, places[position]]
                        assert is_even(*places[position], now, cluster.nodes), f"seed {seed}"
    assert held_back


def could_evict(cluster: Cluster, place: Place) -> bool:
    """Whether a pod of lower priority on the member's node counts for a spread constraint of the member."""
    pod, node = place
    return any(
        means(constraint, other) and where is node and priority(other) < priority(pod)
        for constraint in pod["spec"].get("topologySpreadConstraints", ())
        for other, where in there(cluster)
    )


def zoned(count: int) -> list[Manifest]:
    """Nodes of which each is a zone of its own."""
    return [
        {"metadata": {"name": f"n{at}", "labels": {ZONE: f"z{at}"}}, "status": {"allocatable": {"cpu": "9999"}}}
        for at in range(count)
    ]


def test_hundreds_of_members_over_three_zones_go_round_the_zones() -> None:
    nodes = zoned(3)
    members = [{**scenes.labelled(scenes.pod(f"g-{at}", cpu=1), app="a")} for at in range(300)]
    for member in members:
        member["spec"] = {**member["spec"], **SPREAD}
    places = [(member, nodes[at // 100]) for at, member in enumerate(members)]
    order = order_of(Cluster(nodes, [], members), places).order()
    assert order is not None
    assert [position // 100 for position in order] == [0, 1, 2] * 100


def test_a_member_whose_domain_holds_a_pod_that_could_be_evicted_waits_for_its_siblings() -> None:
    """n0 holds a pod alike of priority 0. The scheduler would evict it for g-0 until g-1 is bound in the other zone."""
    nodes = zoned(2)
    old = scenes.labelled(scenes.pod("old", cpu=1, nodeName="n0", priority=0), app="a")
    members = [scenes.labelled(scenes.pod(f"g-{at}", cpu=1, priority=10, **SPREAD), app="a") for at in range(3)]
    places = [(members[0], nodes[0]), (members[1], nodes[1]), (members[2], nodes[1])]
    order = order_of(Cluster(nodes, [old], members), places)
    assert order.released_now([True, True, True]) == (1,)
    at_once = order_of(Cluster(nodes, [{**old, "spec": {**old["spec"], "priority": 10}}], members), places)
    assert at_once.released_now([True, True, True]) == (1, 0, 2)
