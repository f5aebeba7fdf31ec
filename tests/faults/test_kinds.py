"""Workloads of every kind whose pods ask for gangs: one gang, a refusal that helps, or a warning that is exact.

Keys on the template of a StatefulSet, a Deployment or a PyTorchJob must not make every pod a gang of one. A required
level would then hold for each pod alone, and four pods could run in two super nodes.
"""

import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from workloads_of_kinds import (
    GROUP,
    KUEUE,
    LEAST,
    LEVEL,
    POLICY,
    QUEUE,
    RUNAI,
    TO_KUEUE_GROUP,
    TO_POD_GROUP,
    TOTAL,
    Object,
    document,
    gangs_of,
    said,
    solve,
    workload,
)

from gangs.dialects.expanding import expanded
from gangs.dialects.reading import read_all
from gangs.dialects.table import all_kinds
from gangs.manifests import key_of, pod_of
from gangs.sources import Sources
from kube.text import with_article

pytestmark = pytest.mark.repetitive


def test_the_pods_of_a_stateful_set_are_one_gang_in_the_required_domain() -> None:
    report, lines, status = solve(*KUEUE, "kueue-statefulset-required.yaml")
    (gang,) = report["gangs"]
    assert (gang["name"], gang["outcome"], gang["members"], gang["minMember"]) == ("st", "Placed", 4, 4)
    assert [each["node"] for each in gang["assignments"]] == ["n0", "n1", "n2", "n3"]
    assert (lines, status) == ([], 0)


def test_each_replica_spec_of_a_pytorch_job_has_its_own_domain_and_all_start_together() -> None:
    report, lines, status = solve(*KUEUE, "kueue-pytorchjob-template-queue.yaml")
    (gang,) = report["gangs"]
    assert (gang["outcome"], gang["members"], gang["minMember"]) == ("Placed", 5, 5)
    workers = {each["node"] for each in gang["assignments"] if each["podSet"] == "worker"}
    assert workers == {"n0", "n1", "n2", "n3"}
    assert (lines, status) == ([], 0)


ALONE = (
    "Deployment default/dt: spec.template.metadata.annotations[kueue.x-k8s.io/podset-required-topology]: holds for "
    "each "
    "pod alone, not for all together: as in Kueue the pods of a Deployment are admitted one by one; for one gang "
    "make a "
    "Gang with required: shanghai-cube/super-node and minMember, and label the pod template phalanx.dev/gang: <its "
    "name> "
    "instead"
)
POLICY_ALONE = (
    "Deployment default/dpt: spec.template.metadata.annotations[scheduling.run.ai/topology-policy]: places each pod "
    f"alone: as in KAI Scheduler each pod of a Deployment is its own group; for one gang {TO_POD_GROUP}"
)


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ((*KUEUE, "kueue-deployment-required.yaml"), ALONE),
        (("nodes.yaml", "tas-config.yaml", "kai-deployment-policy-on-template.yaml"), POLICY_ALONE),
    ],
    ids=["kueue", "kai"],
)
def test_the_pods_of_a_deployment_stay_alone_and_it_is_said(files: tuple[str, ...], text: str) -> None:
    report, lines, _ = solve(*files)
    assert {each["members"] for each in report["gangs"]} == {1}
    assert lines == [f"warning: {files[-1]}: {text}"]
    refused, warned = said(document(files[-1].removesuffix(".yaml")))
    assert (refused, warned) == ([], [text])


TOGETHER = ("Job", "StatefulSet", "PyTorchJob", "RayCluster")
BY_ITSELF = ("Deployment", "ReplicaSet", "Service")
UNREAD = ("MPIJob", "JobSet", "LeaderWorkerSet")
WAYS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "a level": ({}, {LEVEL: "rack"}),
    "a queue": ({QUEUE: "q"}, {}),
    "a policy": ({}, {POLICY: "nvlink"}),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", TOGETHER)
def test_workloads_that_are_read_are_one_gang_of_all_their_pods(kind: str, way: str) -> None:
    manifest = workload(kind, *WAYS[way])
    assert said(manifest)[0] == []
    (gang,) = gangs_of(manifest)
    assert (gang.key.name, len(gang.members), gang.expected, gang.min_member) == ("w", 4, 4, 4)
    assert gang.source.kind == kind


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", BY_ITSELF)
def test_pods_that_stand_alone_are_told_so(kind: str, way: str) -> None:
    refused, (warned,) = said(workload(kind, *WAYS[way]))
    assert refused == []
    assert "one by one" in warned or "is its own group" in warned
    assert {gang.expected for gang in gangs_of(workload(kind, *WAYS[way]))} <= {1}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", UNREAD)
def test_groups_that_are_not_read_are_refused_with_what_works(kind: str, way: str) -> None:
    manifest, remedy = workload(kind, *WAYS[way]), TO_POD_GROUP if way == "a policy" else TO_KUEUE_GROUP
    refused, warned = said(manifest)
    if (kind, way) == ("JobSet", "a policy"):
        assert not refused
        assert warned[0].endswith(f"makes each of its Jobs a gang of its own; for one gang {remedy}")
        return
    if way != "a policy":
        remedy = f"write the queue on the {kind} itself, or {remedy}"
    (fault,) = refused
    assert fault.endswith(f"pods of {kind}s are not read as one group yet; {remedy}")
    assert gangs_of(manifest) == []


@pytest.mark.parametrize("kind", ["PyTorchJob", "MPIJob", "RayCluster", "StatefulSet", "Deployment"])
def test_the_remedy_makes_one_gang(kind: str) -> None:
    grouped = workload(kind, {GROUP: "g", QUEUE: "q"}, {TOTAL: "4", LEVEL: "rack"})
    assert said(grouped)[0] == []
    (gang,) = gangs_of(grouped)
    assert (gang.key.name, len(gang.members), gang.min_member, gang.required) == ("g", 4, 4, "rack")
    pods = workload(kind, {"phalanx.dev/gang": "own"})
    own = {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": {"name": "own", "namespace": "default"}}
    (gang,) = gangs_of(pods, {**own, "spec": {"minMember": 4, "required": "rack"}})
    assert (gang.key.name, len(gang.members), gang.min_member, gang.required) == ("own", 4, 4, "rack")


def test_runais_keys_on_a_template_need_a_number_where_the_workload_is_not_read() -> None:
    for kind in ("StatefulSet", "PyTorchJob", "RayCluster"):
        (gang,) = gangs_of(workload(kind, annotations={RUNAI: "rack"}))
        assert (len(gang.members), gang.min_member, gang.required) == (4, 4, "rack")
    faults = said(workload("Deployment", annotations={RUNAI: "rack"}))[0]
    assert faults
    assert all("batch-min-member]: is missing" in each for each in faults)
    (gang,) = gangs_of(workload("Deployment", annotations={RUNAI: "rack", LEAST: "4"}))
    assert (len(gang.members), gang.min_member, gang.required) == (4, 4, "rack")
    (fault,) = said(workload("StatefulSet", annotations={RUNAI: "rack", LEAST: "5"}))[0]
    assert fault.endswith("5 is more than the 4 pods that the StatefulSet runs; lower it to 4")


@pytest.mark.parametrize("kind", ["JobSet", "MPIJob", "LeaderWorkerSet"])
def test_runais_keys_on_the_templates_of_several_controllers_are_sent_to_the_workload_itself(kind: str) -> None:
    (fault,) = said(workload(kind, annotations={RUNAI: "rack", LEAST: "4"}))[0]
    several = f"the pods of {with_article(kind)} have several controllers, so that they would be several gangs"
    assert fault.endswith(f"{several}; write it on the {kind} itself instead")
    mended = workload(kind)
    mended["metadata"]["annotations"] = {RUNAI: "rack", LEAST: "3"}
    assert said(mended)[0] == []
    (gang,) = gangs_of(mended)
    assert len(gang.members) >= 4
    assert (gang.min_member, gang.required) == (3, "rack")


@pytest.mark.parametrize(("labels", "annotations"), [WAYS["a policy"], ({}, {RUNAI: "rack", LEAST: "4"})])
def test_a_stateful_set_that_makes_its_pods_one_by_one_is_told_before_the_first(
    labels: dict[str, str], annotations: dict[str, str]
) -> None:
    manifest = workload("StatefulSet", labels, annotations)
    del manifest["spec"]["podManagementPolicy"]
    (fault,) = said(manifest)[0]
    assert fault == (
        "StatefulSet default/w: spec.podManagementPolicy: is not Parallel: the second pod comes when the first one "
        "runs, "
        "and none runs before all exist; write Parallel"
    )
    manifest["spec"]["replicas"] = 1
    assert [each for each in said(manifest)[0] if "Parallel" in each] == []


@pytest.mark.parametrize("way", ["a level", "a queue"])
def test_one_with_kueues_keys_is_not(way: str) -> None:
    """Such a workload is not refused: its later pods are expected pods, members of the gang before they exist."""
    manifest = workload("StatefulSet", *WAYS[way])
    del manifest["spec"]["podManagementPolicy"]
    assert said(manifest)[0] == []
    (gang,) = gangs_of(manifest)
    assert (gang.key.name, len(gang.members), gang.min_member) == ("w", 4, 4)


def test_a_replica_spec_without_the_keys_is_told_that_it_starts_by_itself() -> None:
    manifest = workload("PyTorchJob", annotations={LEVEL: "rack"})
    manifest["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["metadata"] = {}
    (gang,) = gangs_of(manifest)
    assert (len(gang.members), gang.min_member, gang.required) == (3, 3, "rack")
    assert said(manifest)[1][0] == (
        "PyTorchJob default/w: spec.pytorchReplicaSpecs.Master.template.metadata: names neither a queue nor a level: "
        "its "
        "pods start by themselves, without the gang w"
    )


def test_grouped_replica_specs_share_a_domain() -> None:
    grouped = {LEVEL: "rack", "kueue.x-k8s.io/podset-group-name": "g"}
    (gang,) = gangs_of(workload("PyTorchJob", annotations=grouped))
    assert (gang.required, gang.together) == ("rack", ()), "as if it were asked of the whole gang, and told so"
    assert [(each.name, each.min_count, each.required) for each in gang.pod_sets] == [
        ("master", 1, "rack"),
        ("worker", 3, "rack"),
    ]
    alone = workload("PyTorchJob", annotations=grouped)
    del alone["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["metadata"]["annotations"][
        "kueue.x-k8s.io/podset-group-name"
    ]
    (fault,) = said(alone)[0]
    assert fault.endswith('no other pod template is in group "g"; write it on both, or leave it out')


def test_a_training_job_that_is_suspended_or_over_is_known_as_that() -> None:
    manifest = workload("PyTorchJob", annotations={LEVEL: "rack"})
    manifest["spec"]["runPolicy"] = {"suspend": True}
    (gang,) = gangs_of(manifest)
    assert "PyTorchJob default/w to be resumed (it is suspended by spec.runPolicy.suspend)" in gang.waiting_for
    manifest["spec"]["runPolicy"] = {}
    for condition in ("Succeeded", "Failed"):
        manifest["status"] = {"conditions": [{"type": condition, "status": "True"}]}
        assert gangs_of(manifest) == []
    manifest["status"] = {"conditions": [{"type": "Failed", "status": "False"}, None, "x"]}
    assert len(gangs_of(manifest)[0].members) == 4


def test_two_workloads_of_one_name_are_not_mixed_up() -> None:
    named = [workload(kind, annotations={LEVEL: "rack"}) for kind in ("Job", "StatefulSet")]
    grown, _ = expanded(Sources(objects={key_of(each): each for each in named}))
    reading = read_all(grown)
    (gang,) = reading.gangs
    assert (gang.source.kind, len(gang.members)) == ("Job", 4)
    assert [str(each) for each in reading.faults] == [
        "StatefulSet default/w: metadata.name: Job default/w, which is a gang, has the same name; rename one of the two"
    ]


def test_pods_wait_for_a_workload_that_is_not_seen_yet() -> None:
    pods = expanded(Sources(objects={key_of(each): each for each in [workload("StatefulSet", {QUEUE: "q"})]}))[0].pods
    (gang,) = read_all(Sources(pods[:1])).gangs
    assert gang.waiting_for == ("StatefulSet default/w",)


def test_a_job_that_is_one_of_several_of_a_job_set_is_refused() -> None:
    job = workload("Job", annotations={LEVEL: "rack"})
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s", "uid": "1", "controller": True}
    job["metadata"] |= {"ownerReferences": [owner], "labels": {"jobset.sigs.k8s.io/global-replicas": "2"}}
    (fault,) = said(job)[0]
    assert fault.endswith(f"JobSet s makes several Jobs, which are not read as one group yet; {TO_KUEUE_GROUP}")
    job["metadata"]["labels"] = {"jobset.sigs.k8s.io/global-replicas": "1"}
    assert said(job)[0] == []


def test_the_remedy_makes_one_gang_of_the_jobs_of_a_job_set() -> None:
    jobs = []
    for number in range(2):
        job = workload("Job", {GROUP: "g", QUEUE: "q"}, {TOTAL: "4", LEVEL: "rack"})
        job["spec"] |= {"parallelism": 2, "completions": 2}
        owner = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "name": "s",
            "uid": "1",
            "controller": True,
        }
        job["metadata"] |= {"name": f"s-{number}", "ownerReferences": [owner]}
        assert said(job)[0] == []
        jobs.append(job)
    (gang,) = gangs_of(*jobs)
    assert (gang.key.name, len(gang.members), gang.min_member, gang.required) == ("g", 4, 4, "rack")


def leader_and_workers(labels: dict[str, str], annotations: dict[str, str]) -> list[Object]:
    """The pods of a LeaderWorkerSet of four: a leader's StatefulSet and one of its workers."""
    pods = []
    for name, owner in (("w-0", "w"), ("w-0-1", "w-0"), ("w-0-2", "w-0"), ("w-0-3", "w-0")):
        made = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": owner, "uid": owner, "controller": True}
        metadata: dict[str, Any] = {
            "name": name,
            "namespace": "default",
            "ownerReferences": [made],
            "annotations": annotations,
        }
        metadata["labels"] = {"leaderworkerset.sigs.k8s.io/name": "w", **labels}
        pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": []}})
    return pods


def test_pods_of_a_leader_worker_set_are_refused_until_they_are_grouped() -> None:
    sources = Sources([pod_of(each) for each in leader_and_workers({}, {LEVEL: "rack"})])
    reading = read_all(sources)
    assert reading.gangs == ()
    assert str(reading.faults[0]) == (
        "Pod default/w-0: metadata.ownerReferences: pods of LeaderWorkerSets (w) are not read as one group yet; "
        f"{TO_KUEUE_GROUP}"
    )
    assert len(reading.faults) == 4
    (gang,) = gangs_of(*leader_and_workers({GROUP: "g"}, {TOTAL: "4", LEVEL: "rack"}))
    assert (gang.key.name, len(gang.members), gang.min_member, gang.required) == ("g", 4, 4, "rack")


MEANT = ("metadata", "spec", "status")
NONSENSE: tuple[Any, ...] = (None, 1, -5, "x", [], {}, True, 10**19, [None], {"a": None}, [1], {"a": [1]}, 99_999_999)


def places(part: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all values in an object."""
    entries = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for name, below in entries:
        yield (*way, name)
        yield from places(below, (*way, name))


@pytest.mark.parametrize("kind", [*TOGETHER, *BY_ITSELF, *UNREAD, "CronJob"])
def test_whatever_is_written_in_a_workload_is_read_without_an_error_of_ours(kind: str) -> None:
    dice = random.Random(kind)  # noqa: S311 - for a test that can be repeated
    for labels, annotations in (*WAYS.values(), ({}, {RUNAI: "rack", LEAST: "4"}), ({}, {"phalanx.dev/required": "x"})):
        for _ in range(40):
            manifest = workload(kind, dict(labels), dict(annotations))
            owner = {
                "apiVersion": "jobset.x-k8s.io/v1",
                "kind": "JobSet",
                "name": "s",
                "controller": dice.random() < 0.5,
            }
            manifest["metadata"] |= {"annotations": dict(annotations), "ownerReferences": [owner]}
            manifest |= {"status": {"conditions": [{"type": "Failed", "status": "False"}]}}
            ways = [
                way for way in places(manifest) if way[0] in MEANT and way[1:] not in ((), ("name",), ("namespace",))
            ]
            part = manifest
            *above, last = dice.choice(ways)
            for step in above:
                part = part[step]
            part[last] = deepcopy(dice.choice(NONSENSE))
            said(manifest)
            gangs_of(manifest)
            for each in all_kinds():
                if each.kind == kind and each.keeps is not None:
                    each.keeps(manifest)
