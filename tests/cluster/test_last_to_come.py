"""Topology spread of a placed pod, as if that pod came last.

The counts are computed once for all pods that are alike. They equal the counts without the pod itself.

    zone a: n0 n1    zone b: n2    no zone: n3        web, web, other, …
"""

from random import Random
from typing import Any

import pytest
from cluster_objects import node, pod, spread

from cluster.capturing import snapshot_of
from cluster.eligibility.nodes import Eligibility
from cluster.eligibility.pod_affinity import spreads
from cluster.eligibility.spread_counts import SpreadCounts

TAINT = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
NODES = [
    node("n0", {"zone": "a"}),
    node("n1", {"zone": "a", "disk": "ssd"}),
    node("n2", {"zone": "b", "disk": "ssd"}),
    node("n3", {"disk": "ssd"}),
    node("n4", {"zone": "c", "disk": "ssd"}, taints=[TAINT]),
]
WISHES: list[dict[str, Any]] = [
    {"topologySpreadConstraints": spread("web", "zone")},
    {"topologySpreadConstraints": spread("web", "zone", 2) + spread("web", "kubernetes.io/hostname")},
    {"topologySpreadConstraints": spread("web", "zone", minDomains=4)},
    {"topologySpreadConstraints": spread("web", "zone", matchLabelKeys=["hash"])},
    {"topologySpreadConstraints": spread("web", "zone", nodeTaintsPolicy="Honor")},
    {"topologySpreadConstraints": spread("web", "zone"), "nodeSelector": {"disk": "ssd"}},
    {"topologySpreadConstraints": [{**spread("web", "zone")[0], "labelSelector": {}}]},
]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("wish", range(len(WISHES)))
def test_the_last_of_those_counted_together_is_judged_as_if_counted_alone(seed: int, wish: int) -> None:
    rng = Random(f"{seed}/{wish}")  # noqa: S311 -- draws pods, keeps no secrets
    pods = [
        pod(
            f"p{number}",
            {"app": rng.choice(("web", "web", "other")), "hash": rng.choice("12")},
            nodeName=f"n{rng.randrange(len(NODES))}",
            metadata={"namespace": "there"} if rng.random() < 0.1 else {},
            **WISHES[wish],
        )
        for number in range(rng.randint(1, 9))
    ]
    picture = snapshot_of(NODES, pods)
    for each in pods:
        together = [SpreadCounts(one) for one in spreads(each, picture, lambda _: True)]
        state = picture.nodes[picture.positions[each.spec.node_name]]
        alone = Eligibility(each, picture, ignoring={each.key}).spreads
        refused = [one.refuses_last(each, state.node) for one in together]
        assert refused == [bool(one.exclusion(state.node)) for one in alone]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("wish", range(len(WISHES)))
def test_counts_after_each_binding_are_those_of_a_snapshot_with_the_pods_bound(seed: int, wish: int) -> None:
    rng = Random(f"bound one by one {seed}/{wish}")  # noqa: S311 -- draws pods, keeps no secrets
    asked = pod("asked", {"app": "web", "hash": "1"}, **WISHES[wish])
    bound = [
        pod(f"p{number}", {"app": rng.choice(("web", "web", "other")), "hash": rng.choice("12")}, nodeName=node_name)
        for number, node_name in enumerate(rng.choices([f"n{at}" for at in range(len(NODES))], k=8))
    ]
    empty = snapshot_of(NODES, [])
    counts = [SpreadCounts(one) for one in spreads(asked, empty, lambda _: True)]
    for number, each in enumerate(bound, 1):
        place = empty.nodes[empty.positions[each.spec.node_name]].node
        for one in counts:
            one.bind(each, place)
        then = spreads(asked, snapshot_of(NODES, bound[:number]), lambda _: True)
        for state in empty.nodes:
            expected = [bool(one.exclusion(state.node)) for one in then]
            assert [one.refuses(state.node) for one in counts] == expected
