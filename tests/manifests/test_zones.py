"""The nodes that the real scheduler gives the servers of the multi-zone installation, and the rest if a zone fails.

a: n0, n1      b: n2, n3      c: n4, n5      d: gpu, which only pods that tolerate its taint may have
"""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from node_manifests import node_manifest

from controlplane.control_plane import ControlPlane, wait_until
from controlplane.rendering import MANIFESTS

pytestmark = pytest.mark.controlplane

ZONE = "topology.kubernetes.io/zone"
ZONES = {f"n{number}": "abc"[number // 2] for number in range(6)}
PAGE = MANIFESTS.parent / "docs" / "how-to" / "run-ha.md"
COMMAND = "kubectl apply --server-side -k manifests/high-availability"
LABEL = "app.kubernetes.io/component"
WEBHOOKS, CONTROLLERS = 5, 3
PATIENCE = 150.0
"""Seconds. Pods of nodes that are gone are deleted 40 to 60 s later: the controller-manager waits to be sure."""


@pytest.fixture
def zones(cluster: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[ControlPlane]:
    """The nodes, and the servers on them by the command of the page."""
    nodes = [node_manifest(name, {ZONE: zone}) for name, zone in (*ZONES.items(), ("gpu", "d"))]
    for node in nodes:
        for room in node["status"].values():
            room["ephemeral-storage"] = "100Gi"
    nodes[-1]["spec"] = {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}
    cluster.add_nodes(nodes)
    monkeypatch.chdir(MANIFESTS.parent)
    assert COMMAND in Path(PAGE).read_text()
    cluster.kubectl(*COMMAND.split()[1:], "--force-conflicts")
    yield cluster
    cluster.kubectl("delete", "deployment", "-n", "phalanx-system", "--all")


def placed(cluster: ControlPlane, server: str) -> Counter[str]:
    """How many ready pods of a server each zone has."""
    pods = cluster.request("GET", f"/api/v1/namespaces/phalanx-system/pods?labelSelector={LABEL}={server}")["items"]
    return Counter(ZONES.get(pod["spec"]["nodeName"], "d") for pod in pods if ready(pod))


def ready(pod: dict[str, Any]) -> bool:
    """Whether it serves."""
    conditions = pod["status"].get("conditions", ())
    return "deletionTimestamp" not in pod["metadata"] and any(
        (each["type"], each["status"]) == ("Ready", "True") for each in conditions
    )


def test_every_zone_has_some_of_each_server_and_one_that_is_drained_is_made_up_for(zones: ControlPlane) -> None:
    def spread() -> tuple[list[int], list[int]]:
        return sorted(placed(zones, "webhook").values()), sorted(placed(zones, "controller").values())

    wait_until(lambda: spread() == ([1, 2, 2], [1, 1, 1]), PATIENCE, "some of each server in every zone")
    zones.kubectl("drain", "n0", "n1", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s")
    wait_until(lambda: spread() == ([2, 3], [1, 2]), PATIENCE, "the other zones to have all of them")
    assert set(placed(zones, "webhook")) == set(placed(zones, "controller")) == {"b", "c"}


@pytest.mark.long
def test_a_zone_whose_nodes_are_gone_is_made_up_for(zones: ControlPlane) -> None:
    wait_until(lambda: placed(zones, "webhook").total() == WEBHOOKS, PATIENCE, "all webhooks to serve")
    zones.kubectl("delete", "node", "n4", "n5")

    def outside_c(server: str, count: int) -> bool:
        return placed(zones, server).total() == count and not placed(zones, server)["c"]

    for server, count in (("webhook", WEBHOOKS), ("controller", CONTROLLERS)):
        wait_until(
            partial(outside_c, server, count),
            PATIENCE,
            f"the other zones to have all of {server}",
        )
