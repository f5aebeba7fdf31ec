"""Features of Koordinator's manuals beyond the guide's examples: edits, times, groups, policies, switches.

ClusterTopologyLayer
├── spine-0: block-0 (node-0, node-1, node-2), block-1 (node-3, node-4)
├── spine-1: block-2 (node-5, node-6), block-3 (node-7, node-8)
└── spine-2: block-4 (node-9, node-10, node-11)
"""

import json
from typing import Any

import pytest
from system import Object, Phalanx, numbered, pod, pod_group, priority_class

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

GANG = "gang.scheduling.koordinator.sh/"
MUST_SPINE = ("SpineLayer", "MustGather")
SPINES = ({*range(5)}, {*range(5, 9)}, {*range(9, 12)})


def members(stem: str, count: int, **spec: Any) -> list[Object]:
    """Pods of the gang `stem`."""
    return [pod(name, stem, **spec) for name in numbered(stem, count)]


def annotated(thing: Object, **annotations: str) -> Object:
    """The object with gang annotations, by the last part of their keys, with _ for -."""
    written = {GANG + key.replace("_", "-"): text for key, text in annotations.items()}
    metadata = thing["metadata"]
    return {**thing, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **written}}}


def spines_of(phalanx: Phalanx, names: list[str]) -> list[int]:
    """The spine of each pod, once all have nodes."""
    nodes = [int(node.removeprefix("node-")) for node in phalanx.await_bound(names).values()]
    return [next(at for at, spine in enumerate(SPINES) if node in spine) for node in nodes]


def test_must_gather_edited_to_prefer_gather_plans_the_waiting_members_again(phalanx: Phalanx) -> None:
    """Six pods fit into no spine; the document's troubleshooting says to relax the strategy."""
    phalanx.guide_nodes()
    phalanx.submit(pod_group("big", 6, MUST_SPINE), *members("big", 6))
    phalanx.await_phase("big", "Unplaceable")
    phalanx.submit(pod_group("big", 6, ("SpineLayer", "PreferGather")))
    assert len(set(spines_of(phalanx, numbered("big", 6)))) == 2


def test_an_edit_while_victims_leave_lets_the_plan_fall_and_gives_back_its_room(phalanx: Phalanx) -> None:
    """A block of four nodes does not exist; spine-1 has four once its victim, which takes its time, has gone."""
    phalanx.guide_nodes()
    phalanx.submit(priority_class("high", 100_000))
    low = [pod(f"low-{i}", nodeName=f"node-{i}") for i in (0, 1, 5)]
    low[2]["metadata"]["finalizers"] = ["example.com/slow"]
    phalanx.submit(*low)
    phalanx.wait(lambda: all(p["status"]["phase"] == "Running" for p in phalanx.pods()), "the running pods")
    names = numbered("edited", 4)
    try:
        phalanx.submit(pod_group("edited", 4, MUST_SPINE), *members("edited", 4, priorityClassName="high"))
        phalanx.wait(lambda: nominations(phalanx, names) == [f"node-{i}" for i in (5, 6, 7, 8)], "the nominations")
        phalanx.submit(pod_group("edited", 4, ("BlockLayer", "MustGather")))
        phalanx.wait(lambda: nominations(phalanx, names) == [""] * 4, "the room to be given back")
        phalanx.await_phase("edited", "Unplaceable")
        phalanx.submit(pod_group("edited", 4, MUST_SPINE))
    finally:
        phalanx.cluster.kubectl("patch", "pod", "low-5", "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
    assert set(spines_of(phalanx, names)) == {1}


def nominations(phalanx: Phalanx, names: list[str]) -> list[str]:
    """Return the nodes that are reserved for the pods."""
    reserved = phalanx.reserved()
    return [reserved.get(name, "") for name in names]


def test_a_gang_whose_time_is_over_gives_way_and_is_tried_again(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    phalanx.submit(*(pod(f"busy-{i}", nodeName=f"node-{i}") for i in (0, 1, 5)))
    group = pod_group("late", 4, MUST_SPINE)
    group["spec"]["scheduleTimeoutSeconds"] = 2
    phalanx.submit(group, *members("late", 4))
    phalanx.wait(lambda: timed_out(phalanx, "late") == "True", "the gang's time to be over")
    phalanx.cluster.kubectl("delete", "pod", "busy-5", "--force", "--grace-period=0")
    assert set(spines_of(phalanx, numbered("late", 4))) == {1}
    phalanx.wait(lambda: timed_out(phalanx, "late") == "False", "the condition to be over")


def timed_out(phalanx: Phalanx, name: str) -> str:
    conditions = phalanx.status(name).get("conditions", ())
    return next((str(each["status"]) for each in conditions if each["type"] == "TimedOut"), "")


def test_annotations_alone_make_a_gang_with_a_waiting_time(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    spec = '{"gatherStrategy": [{"layer": "SpineLayer", "strategy": "MustGather"}]}'
    said = {"name": "light", "min_available": "5", "total_number": "6", "mode": "NonStrict", "waiting_time": "2s"}
    pods = [annotated(pod(name), **said, network_topology_spec=spec) for name in numbered("light", 6)]
    phalanx.submit(*(pod(f"busy-{i}", nodeName=f"node-{i}") for i in (0, 1)), *pods[:4])
    phalanx.wait(lambda: "4 of 5" in str(phalanx.status("light").get("message")), "the gang to wait for the fifth")
    phalanx.submit(pods[4])
    phalanx.wait(lambda: timed_out(phalanx, "light") == "True", "the gang's time to be over")
    phalanx.cluster.kubectl("delete", "pod", "busy-0", "busy-1", "--force", "--grace-period=0")
    assert set(spines_of(phalanx, numbered("light", 5))) == {0}


def test_master_and_worker_share_one_spine_and_start_together(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    together = '["default/llm-master", "default/llm-worker"]'
    master = annotated(pod_group("llm-master", 1, MUST_SPINE), groups=together)
    worker = annotated(pod_group("llm-worker", 3, MUST_SPINE), groups=together)
    answer = phalanx.apply(master, *members("llm-master", 1))
    assert "waits for PodGroup default/llm-worker" in answer
    phalanx.await_phase("llm-master", "Waiting")
    phalanx.submit(worker, *members("llm-worker", 3))
    # spine-0 rather than the one of four nodes: there the three workers have one block to themselves
    assert spines_of(phalanx, numbered("llm-master", 1)) == [0]
    assert set(phalanx.await_bound(numbered("llm-worker", 3)).values()) == {"node-0", "node-1", "node-2"}


def test_one_of_two_lost_members_may_come_back_alone_unless_the_policy_minds(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    for name, policy in (("once", "once-satisfied"), ("strict", "waiting-and-running")):
        phalanx.submit(annotated(pod_group(name, 3, MUST_SPINE), match_policy=policy), *members(name, 3))
        spines_of(phalanx, numbered(name, 3))
        phalanx.cluster.kubectl("delete", "pod", f"{name}-0", f"{name}-1", "--force", "--grace-period=0")
        phalanx.await_phase(name, "Waiting")
        phalanx.submit(pod(f"{name}-0", name))
    phalanx.await_bound(["once-0"])
    waits = "waits for 1 more pod: 2 of 3 exist"
    phalanx.wait(lambda: phalanx.status("strict").get("message") == waits, "the other gang to wait")
    assert phalanx.nodes_of(["strict-0"]) == {"strict-0": ""}


def test_the_config_map_switches_layers_and_preemption_off_and_on_again(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    phalanx.cluster.kubectl_result("create", "namespace", "koordinator-system")
    phalanx.submit(priority_class("high", 100_000))
    low = [pod(f"low-{i}", nodeName=f"node-{i}") for i in (0, 1, 5)]
    phalanx.submit(*low, configuration(preemption="false"))
    phalanx.wait(lambda: all(p["status"]["phase"] == "Running" for p in phalanx.pods()), "the running pods")
    phalanx.submit(pod_group("meek", 4, MUST_SPINE), *members("meek", 4, priorityClassName="high"))
    phalanx.await_phase("meek", "Unplaceable")
    phalanx.submit(configuration(preemption="true"))
    assert set(spines_of(phalanx, numbered("meek", 4))) == {1}
    refused = phalanx.cluster.kubectl_result("apply", "-f", "-", stdin=json.dumps(configuration(preemption="maybe")))
    assert refused.returncode != 0
    assert "enablePreemption" in refused.stderr
    phalanx.submit(configuration(aware="false"))
    phalanx.apply_once_told("awareNetworkTopology is not true", pod_group("blind", 5, MUST_SPINE))
    phalanx.cluster.kubectl("delete", "configmap", "koord-scheduler-config", "-n", "koordinator-system")


def configuration(aware: str = "true", preemption: str = "true") -> Object:
    """The document's ConfigMap."""
    text = f"""\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: Coscheduling
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: CoschedulingArgs
      awareNetworkTopology: {aware}
      enablePreemption: {preemption}
"""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "koord-scheduler-config", "namespace": "koordinator-system"},
        "data": {"koord-scheduler-config": text},
    }
