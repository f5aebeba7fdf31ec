"""Hypothetical clusters: with more nodes, cordoned nodes, drained nodes, or a relaxed level.

spine-0: node-0..4   spine-1: node-5..8   spine-2: node-9..11      8 cpu each, pods of low priority on 0, 1 and 5
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.release.patches import release_patch
from kube.keys import GATE
from kube.objects import Node, Pod
from planning.dry_run import DryRun, dry_run
from planning.files.documents import parse
from planning.what_if import UnknownNodeError, WhatIf

GUIDE = Path(__file__).parents[2] / "examples" / "koordinator"
FILES = ("nodes", "cluster-network-topology", "priorityclasses", "low-priority-pods", "high-priority-training")


def answer(what_if: WhatIf, *more: str, preemption: bool = True) -> DryRun:
    texts = [(GUIDE / f"{name}.yaml").read_bytes() for name in FILES] + [each.encode() for each in more]
    documents = [document for text in texts for document in parse(text, "file")[0]]
    return dry_run(documents, what_if=what_if, preemption=preemption)


def placed(result: DryRun) -> tuple[list[str], list[str]]:
    """Nodes and victims of the one gang."""
    (decision,) = result.decisions
    return [each.node for each in decision.assignments], [each.name for each in decision.evictions]


def test_as_it_is() -> None:
    assert placed(answer(WhatIf())) == (["node-5", "node-6", "node-7", "node-8"], ["low-priority-pod-5"])


def test_one_more_node_like_another_has_its_place_and_size_and_none_of_its_pods() -> None:
    nodes, victims = placed(answer(WhatIf(added={"node-5": 1})))
    assert (sorted(nodes), victims) == (["node-5-more-1", "node-6", "node-7", "node-8"], [])


def test_nobody_new_goes_to_a_cordoned_node() -> None:
    nodes, victims = placed(answer(WhatIf(cordoned=frozenset({"node-6"}))))
    assert (sorted(nodes), len(victims)) == (["node-0", "node-2", "node-3", "node-4"], 1)


def test_a_drained_node_has_lost_its_pods_and_takes_none() -> None:
    nodes, victims = placed(answer(WhatIf(drained=frozenset({"node-0"})), preemption=False))
    assert (nodes, victims) == ([], [])
    nodes, victims = placed(answer(WhatIf(drained=frozenset({"node-5"}))))
    assert "node-5" not in nodes
    assert victims


def test_a_daemon_set_runs_on_the_new_node_too() -> None:
    daemon = """\
apiVersion: v1
kind: Pod
metadata:
  name: agent
  namespace: default
  ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: agent, uid: u, controller: true}]
spec:
  nodeName: node-8
  containers: [{name: main, image: agent, resources: {requests: {cpu: 1}}}]
"""
    nodes, _ = placed(answer(WhatIf(added={"node-8": 4}), daemon))
    assert not [name for name in nodes if name.startswith("node-8")]


def test_a_level_that_is_relaxed_is_preferred() -> None:
    closed = frozenset({"node-0", "node-1", "node-6"})
    (strict,) = answer(WhatIf(cordoned=closed)).decisions
    assert strict.outcome.value == "Unplaceable"
    relaxed = answer(WhatIf(cordoned=closed, relaxed=("SpineLayer",)))
    nodes, victims = placed(relaxed)
    assert (len(nodes), victims) == (4, [])
    by_label = answer(WhatIf(cordoned=closed, relaxed=("network.topology.nvidia.com/spine",)))
    assert placed(by_label) == (nodes, victims)


def test_a_node_that_is_not_there_is_no_answer() -> None:
    with pytest.raises(UnknownNodeError, match="no node node-nine"):
        answer(WhatIf(drained=frozenset({"node-5", "node-nine"})))


def test_a_gang_that_is_not_there_is_a_mistake() -> None:
    assert [str(each) for each in answer(WhatIf(gangs=frozenset({"default/nosuch"}))).mistakes] == [
        "no gang default/nosuch in the cluster"
    ]


RACKS = """\
apiVersion: phalanx.dev/v1alpha1
kind: Topology
metadata: {name: racks}
spec: {levels: [{name: rack, nodeLabel: example.com/rack}]}
---
apiVersion: phalanx.dev/v1alpha1
kind: Gang
metadata: {name: llm, namespace: default}
spec: {minMember: 2, required: rack, topology: racks}
"""


def released(name: str, at: Node, domain: tuple[tuple[str, str], ...], affinity: dict[str, Any]) -> dict[str, Any]:
    """A member on its node, as the release has pinned it."""
    labels = {"phalanx.dev/gang": "llm"}
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "8"}}}
    spec = {"containers": [container], "schedulingGates": [{"name": GATE}], **affinity}
    manifest = {"metadata": {"name": name, "namespace": "default", "labels": labels}, "spec": spec}
    patch = release_patch(msgspec.convert(manifest, Pod), at, domain=domain, now="2026-01-01T00:00:00Z")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**manifest["metadata"], "annotations": patch["metadata"]["annotations"]},
        "spec": {**spec, **patch["spec"], "nodeName": at.metadata.name},
        "status": {"phase": "Running"},
    }


@pytest.mark.parametrize("domain", [(), (("example.com/rack", "r0"),)], ids=["exact node", "rack"])
@pytest.mark.parametrize("own", [False, True], ids=["no affinity", "an affinity of the user's"])
def test_a_drained_member_of_a_gang_with_a_required_level_gets_another_node(domain: Any, own: bool) -> None:  # noqa: FBT001
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "example.com/rack", "operator": "Exists"}]}]}
    affinity = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "example.com/rack": "r0"}},
            "status": {"allocatable": {"cpu": "8", "pods": "110"}},
        }
        for name in ("n0", "n1", "n2")
    ]
    members = [
        released(name, msgspec.convert(node, Node), domain, affinity if own else {})
        for name, node in zip("ab", nodes, strict=False)
    ]
    text = "---\n".join([RACKS, *(json.dumps(each) + "\n" for each in (*nodes, *members))])
    (decision,) = dry_run(parse(text.encode(), "file")[0], what_if=WhatIf(drained=frozenset({"n1"}))).decisions
    assert decision.outcome.value == "Placed", decision.message
    assert [each.node for each in decision.assignments] == ["n0", "n2"]
