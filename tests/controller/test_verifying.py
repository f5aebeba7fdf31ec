"""The check before a release: members with inter-pod affinity to each other are checked together."""

from typing import Any

import msgspec
import pytest

from cluster.capturing import snapshot_of
from controller.release.verifying import lost_room
from kube.objects import Node, Pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def node(name: str) -> Node:
    return msgspec.convert({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}, Node)


def pod(name: str, app: str, near: str = "") -> Pod:
    spec: dict[str, Any] = {"priority": 0}
    if near:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": near}}}
        spec["affinity"] = {"podAffinity": {REQUIRED: [term]}}
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": {"app": app}}
    return msgspec.convert({"metadata": metadata, "spec": spec}, Pod)


@pytest.mark.parametrize(
    ("master", "worker", "reason"),
    [
        ("n1", "n1", ""),
        ("n1", "n2", "node n2: node(s) didn't match pod affinity rules"),
    ],
)
def test_a_worker_may_go_where_its_master_goes(master: str, worker: str, reason: str) -> None:
    planned = [(pod("master", "m"), master), (pod("worker", "w", near="m"), worker)]
    assert lost_room(planned, snapshot_of([node("n1"), node("n2")], []), priority=0) == reason
