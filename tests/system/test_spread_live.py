"""A gang with hard topology spread is released in the order in which the stock scheduler accepts its members.

zone-a  n0: low (2 cpu, counted by the spread)      zone-b  n1, n2

Each member of 3 needs 5 of 8 cpu, so each has a node of its own. If the member of n0 is bound first, zone-a holds two
counted pods and zone-b none. The scheduler then refuses the member, and evicts `low` to make the constraint hold.
"""

import pytest
from node_manifests import node_manifest
from system import Phalanx, all_bound, numbered, pod, pod_group, priority_class

from controlplane.recording import bound

pytestmark = pytest.mark.controlplane

ZONE = "topology.kubernetes.io/zone"
COUNTED = {"app": "spread"}
SPREAD = {
    "maxSkew": 1,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": COUNTED},
}
MEMBERS = numbered("spread", 3)


def test_members_are_released_so_that_the_scheduler_evicts_no_pod_for_the_spread(phalanx: Phalanx) -> None:
    zones = {"n0": "zone-a", "n1": "zone-b", "n2": "zone-b"}
    phalanx.cluster.add_nodes(node_manifest(name, {ZONE: zone}) for name, zone in zones.items())
    phalanx.submit(priority_class("low", -10), priority_class("high", 1000))
    low = pod("low", cpu=2, nodeName="n0", priorityClassName="low")
    low["metadata"]["labels"] = COUNTED
    phalanx.submit(low)
    phalanx.wait(lambda: phalanx.pod("low")["status"].get("phase") == "Running", "the pod of low priority")
    members = [
        pod(name, "spread", cpu=5, priorityClassName="high", topologySpreadConstraints=[SPREAD]) for name in MEMBERS
    ]
    for each in members:
        each["metadata"]["labels"] |= COUNTED
    with phalanx.record() as recorder:
        phalanx.submit(pod_group("spread", 3), *members)
        events = recorder.wait_for(all_bound(MEMBERS))
    nodes = list(dict.fromkeys(bound(each) for each in events if each.name in MEMBERS and bound(each)))
    assert sorted(nodes) == ["n0", "n1", "n2"]
    assert nodes[0] != "n0"
    assert "deletionTimestamp" not in phalanx.pod("low")["metadata"]
