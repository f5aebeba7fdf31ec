"""Gangs that real controllers and operators scale up, scale down and recreate.

Racks r1: n0 … n3, r2: n4 … n6. A pod fills a node, so that r1 has room for one more than a gang of three.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from asking import RACK
from leader_first import number_of, rival
from system import Object, Phalanx, unschedulable
from two_racks import apply_two_racks
from workload_operators import ROWS, template

from controlplane.operator_processes import Running
from controlplane.recording import bound
from controlplane.running.stages import GOES_ON, TERMINATES_AFTER

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

Places = dict[str, str]
R1 = {"n0", "n1", "n2", "n3"}
KUEUE_RACKS: Object = {
    "apiVersion": "kueue.x-k8s.io/v1beta1",
    "kind": "Topology",
    "metadata": {"name": "racks"},
    "spec": {"levels": [{"nodeLabel": RACK}]},
}


@dataclass(frozen=True, slots=True)
class Growing:
    """A kind whose number of pods is changed. `at`: the fields with that number; `others`: pods that always exist."""

    kind: str
    at: tuple[str, ...]
    others: int = 0
    in_a_queue: bool = False


def _job(*, in_a_queue: bool) -> Object:
    """A Job with our annotation, or one of Kueue's that may grow."""
    pods = template()
    pods["spec"]["restartPolicy"] = "Never"
    spec = {"parallelism": 3, "template": pods}
    metadata: Object = {"name": "w", "namespace": "default"}
    if in_a_queue:
        pods["metadata"]["annotations"] |= {"kueue.x-k8s.io/podset-required-topology": RACK}
        metadata |= {"labels": {"kueue.x-k8s.io/queue-name": "q"}}
        metadata |= {"annotations": {"kueue.x-k8s.io/elastic-job": "true"}}
    else:
        metadata |= {"annotations": {"phalanx.dev/required": "rack"}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def filling(manifest: Object) -> Object:
    """The workload with pods of which each fills a node."""
    found: Object = yaml.safe_load(yaml.safe_dump(manifest).replace("cpu: '1'", "cpu: '6'"))
    return found


def of(growing: Growing) -> Object:
    """The workload with three pods in one rack."""
    if growing.kind == "Job":
        return filling(_job(in_a_queue=growing.in_a_queue))
    manifest = filling(ROWS[growing.kind].manifest(required="rack"))
    for path in growing.at:
        part = manifest
        *way, last = path.split("/")[1:]
        for step in way:
            part = part[int(step)] if isinstance(part, list) else part[step]
        part[last] = 3 - growing.others
    return manifest


def resize(phalanx: Phalanx, growing: Growing, pods: int) -> None:
    """Scale the workload to so many pods."""
    patch = [{"op": "add", "path": path, "value": pods - growing.others} for path in growing.at]
    phalanx.cluster.kubectl("patch", growing.kind.lower(), "w", "--type=json", "-p", json.dumps(patch))


def placed(phalanx: Phalanx) -> Places:
    """The nodes of the pods that have one, by name."""
    pods = [each for each in phalanx.pods() if "deletionTimestamp" not in each["metadata"]]
    return {each["metadata"]["name"]: each["spec"]["nodeName"] for each in pods if each["spec"].get("nodeName")}


@pytest.fixture
def racks(phalanx: Phalanx) -> Phalanx:
    """Seven nodes in two racks, and a topology over them."""
    return apply_two_racks(phalanx, 7)


GROWING = (
    Growing("Job", ("/spec/parallelism",)),
    Growing("Job", ("/spec/parallelism",), in_a_queue=True),
    Growing("StatefulSet", ("/spec/replicas",)),
    Growing("RayCluster", ("/spec/workerGroupSpecs/0/maxReplicas", "/spec/workerGroupSpecs/0/replicas"), others=1),
)


@pytest.mark.parametrize(
    "growing",
    [
        pytest.param(
            each,
            id=f"{each.kind}{' of Kueue' * each.in_a_queue}",
            marks=[] if each.kind == "StatefulSet" else pytest.mark.long,
        )
        for each in GROWING
    ],
)
def test_more_pods_come_beside_their_siblings_or_wait_and_fewer_give_room_back(
    racks: Phalanx, growing: Growing, request: pytest.FixtureRequest
) -> None:
    if growing.kind == "RayCluster":
        request.getfixturevalue("kuberay")
    if growing.in_a_queue:
        racks.submit(KUEUE_RACKS)
    racks.apply_once_told("gang default/w: 3 pods fit", of(growing))
    racks.wait(lambda: len(placed(racks)) == 3, "three pods to be bound")
    first = placed(racks)
    rack = R1 if set(first.values()) <= R1 else {"n4", "n5", "n6"}
    resize(racks, growing, len(rack))
    racks.wait(lambda: set(placed(racks).values()) == rack, "the rack to be full")
    assert first.items() <= placed(racks).items()
    resize(racks, growing, len(rack) + 1)
    racks.wait(lambda: len(racks.pods()) == len(rack) + 1, "one more pod")

    def told() -> bool:
        gated = [each for each in racks.pods() if each["spec"].get("schedulingGates")]
        return len(gated) == 1 and "rack" in racks.status("w").get("message", "")

    racks.wait(told, "it to be gated, and why to be told")
    full = placed(racks)
    assert len(full) == len(rack)
    resize(racks, growing, 3)
    racks.wait(lambda: len(racks.pods()) == 3, "the others to go")
    # The operator may have deleted a bound pod: then the waiting pod has that place.
    stayed = {name: node for name, node in placed(racks).items() if name in full}
    assert stayed.items() <= full.items()
    assert set(placed(racks).values()) <= rack
    racks.wait(lambda: racks.status("w").get("phase") == "Placed", "the gang to be placed")
    assert racks.status("w")["members"]["expected"] == 3


def test_a_group_more_is_a_gang_more_and_moves_nobody(racks: Phalanx, lws: Running) -> None:
    lws.register()
    manifest = filling(ROWS["LeaderWorkerSet"].manifest(required="rack"))
    manifest["spec"]["leaderWorkerTemplate"]["size"] = 3
    racks.apply_once_told("gang default/w-0: 3 pods fit", manifest)
    racks.wait(lambda: len(placed(racks)) == 3, "the first group to be bound")
    first = placed(racks)
    racks.cluster.kubectl("scale", "--replicas=2", "leaderworkerset/w")
    racks.wait(lambda: len(placed(racks)) == 6, "the second group to be bound")
    assert first.items() <= placed(racks).items()
    second = {name: node for name, node in placed(racks).items() if name not in first}
    assert len({node in R1 for node in second.values()}) == 1, "it is in one rack"
    racks.await_phase("w-1", "Placed")
    racks.cluster.kubectl("scale", "--replicas=1", "leaderworkerset/w")
    racks.wait(lambda: placed(racks) == first and not racks.gang("w-1"), "the second group to go, and its gang")
    assert racks.status("w-0")["phase"] == "Placed"


def slow_to_end(part: Any) -> Any:
    """Return the manifest, or a part of it, with pods that take 15 s to end after their deletion, as on real nodes."""
    if isinstance(part, list):
        return [slow_to_end(each) for each in part]
    if not isinstance(part, dict):
        return part
    more = {TERMINATES_AFTER: "15s"} if GOES_ON in part else {}
    return {key: slow_to_end(each) for key, each in part.items()} | more


@contextmanager
def besieged(phalanx: Phalanx, *nodes: str) -> Iterator[None]:
    """Create for each of these nodes a pod of no gang and of the same priority that waits for the node.

    The scheduler tries such a pod whenever a pod on the node is gone. At the end none of them has been bound.
    """
    rivals = [rival(number_of(each)) for each in nodes]
    names = [each["metadata"]["name"] for each in rivals]
    phalanx.submit(*rivals)
    phalanx.wait(lambda: all(unschedulable(phalanx.pod(name)) for name in names), "the others to be tried in vain")
    with phalanx.record() as recorder:
        yield
        events = [event for event in recorder.events if event.name in names]
    assert not [event.name for event in events if bound(event)]
    for name in names:
        phalanx.cluster.kubectl("delete", "pod", name)


def test_a_group_that_is_made_anew_for_one_of_its_pods_gets_its_rack_back(racks: Phalanx, lws: Running) -> None:
    lws.register()
    manifest = slow_to_end(filling(ROWS["LeaderWorkerSet"].manifest(required="rack")))
    manifest["spec"]["leaderWorkerTemplate"]["restartPolicy"] = "RecreateGroupOnPodRestart"
    racks.apply_once_told("gang default/w-0: 4 pods fit in r1: n0..3", manifest)
    racks.wait(lambda: len(placed(racks)) == 4, "the group to be bound")
    assert set(placed(racks).values()) == R1
    old, before = uids(racks), placed(racks)
    with besieged(racks, *R1):
        racks.cluster.kubectl("delete", "pod", "w-0-2", "--wait=false")
        racks.wait(lambda: old.isdisjoint(uids(racks)) and len(placed(racks)) == 4, "all to be made and bound anew")
    assert placed(racks) == before
    racks.await_phase("w-0", "Placed")


def test_a_job_set_that_is_made_anew_gets_its_rack_back_as_a_whole(racks: Phalanx, jobset: Running) -> None:
    jobset.register()
    manifest = slow_to_end(filling(ROWS["JobSet"].manifest(required="rack")))
    manifest["spec"]["failurePolicy"] = {"maxRestarts": 2}
    for each in manifest["spec"]["replicatedJobs"]:
        each["template"]["spec"]["backoffLimit"] = 0
    racks.apply_once_told("gang default/w: 4 pods fit in r1: n0..3", manifest)
    racks.wait(lambda: len(placed(racks)) == 4, "all pods to be bound")
    by_rank = ranked(racks)
    old = {each["metadata"]["uid"] for each in racks.pods()}
    failing, others = racks.pods()[-1]["metadata"]["name"], R1 - {racks.pods()[-1]["spec"]["nodeName"]}
    with besieged(racks, *others), racks.record() as recorder:  # the room of the one that fails is free at once
        status = {"status": {"phase": "Failed"}}
        racks.cluster.kubectl("patch", "pod", failing, "--subresource=status", "--type=merge", "-p", json.dumps(status))
        racks.wait(
            lambda: old.isdisjoint(uids(racks)) and len(placed(racks)) == 4, "all pods to be made and bound anew"
        )
        events = [each for each in recorder.events if each.object["metadata"]["uid"] not in old]
    mine = [each for each in events if each.name.startswith("w-")]
    complete = [number for number, event in enumerate(mine) if event.type == "ADDED"][3]
    assert not any(bound(event) for event in mine[:complete]), "some started before all were there again"
    assert ranked(racks) == by_rank
    racks.await_phase("w", "Placed")


def uids(phalanx: Phalanx) -> set[str]:
    """The pods that are there."""
    return {each["metadata"]["uid"] for each in phalanx.pods()}


def ranked(phalanx: Phalanx) -> dict[str, str]:
    """The nodes by the name of the Job and the number of the pod in it."""
    labels = ("jobset.sigs.k8s.io/replicatedjob-name", "batch.kubernetes.io/job-completion-index")
    found = ((each["metadata"]["labels"], each["spec"]["nodeName"]) for each in phalanx.pods())
    return {"-".join(of[label] for label in labels): node for of, node in found}
