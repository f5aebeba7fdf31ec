"""Pods that carry Run:ai's annotations themselves: their gangs and their faults."""

from typing import Any

import pytest
from test_runai import EXAMPLE
from written import pod, sources

from gangs.dialects.claims import dialect_of
from gangs.dialects.reading import read_all
from gangs.model import GangKey, Reading
from gangs.sources import Sources
from kube.objects import Pod

KEY = "kai.scheduler/"
PLACE = {f"{KEY}topology": "network", f"{KEY}topology-required-placement": "rack"}
MINIMUM = {f"{KEY}batch-min-member": "3"}


def owner(kind: str, name: str = "train") -> dict[str, Any]:
    """A controller's reference."""
    return {"apiVersion": "kubeflow.org/v1", "kind": kind, "name": name, "uid": kind, "controller": True}


def worker(name: str, kind: str = "PyTorchJob", uid: str = "", **more: str) -> Pod:
    """A pod of a workload; further annotations by the end of their key, _ for -."""
    annotations = {**PLACE, **MINIMUM, **{KEY + key.replace("_", "-"): text for key, text in more.items()}}
    return pod(name, annotations=annotations, owner={**owner(kind), "uid": uid or kind})


def reading(*pods: Pod, text: str = EXAMPLE) -> Reading:
    """Return the reading of these pods with the guide's topology."""
    return read_all(Sources(pods, sources(text).objects))


@pytest.mark.parametrize(
    ("annotations", "of", "name"),
    [
        (PLACE | MINIMUM, owner("PyTorchJob"), "train"),
        (MINIMUM, owner("LeaderWorkerSet", "lws"), "lws"),
        (PLACE, None, "p"),
        (PLACE, {**owner("Job"), "apiVersion": "batch/v1"}, None),
        (PLACE, {**owner("Job"), "apiVersion": "batch.volcano.sh/v1alpha1"}, "train"),
        (PLACE | {f"{KEY}skip-podgrouper": "true"}, owner("PyTorchJob"), None),
        (PLACE | {f"{KEY}skip-podgrouper": "yes"}, owner("PyTorchJob"), "train"),
        ({f"{KEY}segment-size": "2"}, owner("PyTorchJob"), None),
        ({}, owner("PyTorchJob"), None),
    ],
)
def test_a_pod_asks_by_its_annotations_for_the_gang_of_its_controller(
    annotations: dict[str, str], of: dict[str, Any] | None, name: str | None
) -> None:
    found = dialect_of(pod("p", annotations=annotations, owner=of))
    assert (found and found[1]) == (name and GangKey("runai", "default", name))


def test_a_pod_of_a_pod_group_has_its_gang_by_that() -> None:
    found = dialect_of(pod("p", annotations={**PLACE, "pod-group-name": "g"}, owner=owner("PyTorchJob")))
    assert found is not None
    assert found[1] == GangKey("kai", "default", "g")


def test_the_pods_of_one_controller_are_one_gang_in_their_place() -> None:
    found = reading(worker("train-worker-0"), worker("train-master-0"))
    assert found.faults == ()
    (gang,) = found.gangs
    assert (gang.key.name, gang.expected, gang.min_member) == ("train", 3, 3)
    assert (gang.topology, gang.required, gang.preferred) == ("network", "rack", None)
    assert [each.pod.metadata.name for each in gang.members] == ["train-master-0", "train-worker-0"]


def test_pods_of_two_controllers_are_two_gangs_and_more_than_the_minimum_may_come() -> None:
    others = [pod(f"o-{n}", annotations={**MINIMUM}, owner=owner("StatefulSet", "o")) for n in range(4)]
    gangs = {gang.key.name: gang for gang in reading(worker("a"), *others).gangs}
    assert {name: (gang.expected, gang.min_member) for name, gang in gangs.items()} == {"train": (3, 3), "o": (4, 3)}


def test_a_pod_without_a_controller_is_a_gang_of_one() -> None:
    (gang,) = reading(pod("p", annotations=PLACE)).gangs
    assert (gang.key.name, gang.expected, gang.required) == ("p", 1, "rack")


def test_the_topology_is_waited_for() -> None:
    (gang,) = reading(worker("a"), text="").gangs
    assert gang.waiting_for == ("Topology.kai.scheduler network",)


def test_a_label_keeps_the_pods_to_their_node_pool() -> None:
    mine = pod("p", annotations=PLACE, labels={f"{KEY}node-pool": "gb200"})
    (gang,) = reading(mine).gangs
    assert gang.node_affinity is not None
    assert gang.node_affinity.required is not None


@pytest.mark.parametrize(
    ("pods", "problem"),
    [
        ((worker("a", topology_required_placement="moon"),), '"moon" is not a level of Topology.kai.scheduler network'),
        ((worker("a", batch_min_member="many"),), '"many" is not a number from 1 up'),
        ((worker("a", topology=""),), "is empty"),
        ((worker("a", topology_preferred_placement="zone"),), "is wider than the required level"),
        ((worker("a", topology_preferred_placement="rack"),), "is the required level"),
        ((worker("a"), worker("b", uid="another", batch_min_member="4")), 'is "4", but is "3" on Pod default/a'),
        (
            (worker("a"), worker("b", kind="StatefulSet")),
            "is StatefulSet, and PyTorchJob of Pod default/a has the same",
        ),
    ],
)
def test_what_is_wrong_is_said_with_pod_and_field(pods: tuple[Pod, ...], problem: str) -> None:
    found = reading(*pods)
    assert found.gangs == ()
    assert any(problem in str(each) for each in found.faults), found.faults


def test_a_job_that_is_a_gang_keeps_its_name_for_itself() -> None:
    job = f"""
        apiVersion: batch/v1
        kind: Job
        metadata: {{name: train, annotations: {{{KEY}topology: network}}}}
        spec:
          parallelism: 2
          template: {{metadata: {{labels: {{phalanx.dev/workload: runai.Job}}}}, spec: {{}}}}
    """
    found = reading(worker("a"), text=f"{EXAMPLE}\n---{job}")
    (fault,) = map(str, found.faults)
    assert fault == (
        "Pod default/a: metadata.ownerReferences: Job default/train, which is a gang, has the same name; "
        "rename one of the two workloads"
    )
