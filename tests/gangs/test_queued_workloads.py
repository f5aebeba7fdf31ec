"""Workloads with a queue's name on themselves, as Kueue's users write it: admission copies the name to their templates.

Besides Jobs, Kueue (v0.14) reads the label on StatefulSets, Deployments, the training operator's jobs and Ray's kinds.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from workload_operators import IN_TURN, ROWS, Object, Row, owned, spark_application

from gangs.dialects.expanding import expanded
from gangs.dialects.reading import read_all
from gangs.dialects.reviewing import review
from gangs.dialects.templates import as_admitted
from gangs.manifests import key_of, pod_of
from gangs.sources import Sources
from gangs.workloads.kind_table import WORKLOADS
from gangs.workloads.pod_templates import templates
from kube.placeholders import role_of_seat, to_come
from webhook.admission.object_reviews import workload_changed, workload_created
from webhook.admission.reviews import Admitted

QUEUE = "kueue.x-k8s.io/queue-name"
MARKED = ("JobSet", "MPIJob", "LeaderWorkerSet")
"""Kinds whose pods are created through child objects."""
TOGETHER = ("StatefulSet", "PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "RayCluster", *MARKED)
every_kind = pytest.mark.parametrize("row", [ROWS[kind] for kind in TOGETHER], ids=TOGETHER)


def queued(row: Row, *, place: str = "labels") -> Any:
    """A workload that names a queue, and nothing on its templates."""
    manifest = row.manifest()
    manifest["metadata"] |= {place: {QUEUE: "q"}}
    return manifest


def admitted(row: Row, manifest: Object | None = None) -> Any:
    """Return the workload as it is stored after admission; None: the workload of `queued`."""
    return as_admitted(queued(row) if manifest is None else manifest, Sources())


def said(manifest: Object, *, exists: bool = False) -> tuple[list[str], list[str]]:
    """Return the faults for which admission refuses the workload, and the warnings about it."""
    faults, advice = review(manifest, Sources(), exists=exists)
    return [str(each) for each in faults], [str(each) for each in advice]


def written(manifest: Object) -> Iterator[Any]:
    """Yield the pod templates of a workload, as mutable parts of its manifest."""
    for each in templates(manifest):
        part: Any = manifest
        for step in each.way:
            part = part[int(step)] if isinstance(part, list) else part[step]
        yield part


def test_every_kind_that_is_queued_is_here() -> None:
    assert {*TOGETHER, "Deployment", "SparkApplication"} == {
        kind for (_, kind), row in WORKLOADS.items() if row.queued and row.rules is None
    }


@every_kind
@pytest.mark.parametrize("place", ["labels", "annotations"])
def test_its_pods_are_one_gang_of_the_queue(row: Row, place: str) -> None:
    manifest = admitted(row, queued(row, place=place))
    assert said(queued(row, place=place)) == ([], [])
    pods = [pod_of(each) for each in row.pods(manifest)]
    (gang,) = read_all(Sources(pods, {key_of(manifest): manifest})).gangs
    assert (gang.key.dialect, gang.key.name, gang.queue, gang.min_member) == ("kueue", row.gang, "q", 4)
    assert len(gang.members) == 4
    named = {each.name: each.count for each in gang.pod_sets}
    assert named == (dict(row.sets) if len(row.sets) > 1 else {"main": 4})
    waiting = read_all(Sources(pods[:-1], {key_of(manifest): manifest})).gangs[0]
    assert not waiting.suffice(waiting.members)


@every_kind
def test_the_dry_run_plans_its_pods(row: Row) -> None:
    manifest = queued(row)
    (gang,) = read_all(expanded(Sources(objects={key_of(manifest): manifest}))[0]).gangs
    assert (gang.queue, [each.pod.metadata.name for each in gang.members]) == ("q", list(row.names))


@every_kind
def test_places_that_its_templates_ask_for_are_kept(row: Row) -> None:
    manifest = queued(row)
    for template in written(manifest):
        template["metadata"]["annotations"] = {"kueue.x-k8s.io/podset-required-topology": "rack"}
    (gang,) = read_all(expanded(Sources(objects={key_of(manifest): manifest}))[0]).gangs
    levels = {gang.required} if len(gang.pod_sets) == 1 else {each.required for each in gang.pod_sets}
    assert levels == {"rack"}


def test_the_pods_of_a_deployment_are_queued_one_by_one_as_in_kueue() -> None:
    row = ROWS["Deployment"]
    (told,) = said(queued(row))[1]
    assert "queues each pod alone: as in Kueue the pods of a Deployment are admitted one by one" in told
    manifest = admitted(row)
    pods = [pod_of(each) for each in row.pods(manifest)]
    gangs = read_all(Sources(pods, {key_of(manifest): manifest})).gangs
    assert [(each.queue, len(each.members)) for each in gangs] == [("q", 1)] * 4


@every_kind
def test_a_template_that_says_otherwise_is_refused(row: Row) -> None:
    for labels, problem in (
        ({QUEUE: "other"}, f'metadata.labels[{QUEUE}]: "other" differs from "q" of the {row.kind}; leave it out'),
        (
            {"kueue.x-k8s.io/pod-group-name": "g"},
            (
                "metadata.labels[kueue.x-k8s.io/pod-group-name]: names a group of plain pods, "
                f"but the {row.kind} is in a queue as a whole; leave it out"
            ),
        ),
    ):
        manifest = queued(row)
        last = list(written(manifest))[-1]
        last["metadata"]["labels"] = {**last["metadata"].get("labels", {}), **labels}
        assert any(each.endswith(problem) for each in said(manifest)[0]), said(manifest)


@every_kind
def test_a_queue_and_our_own_annotations_are_refused(row: Row) -> None:
    manifest = queued(row)
    manifest["metadata"]["annotations"] = {"phalanx.dev/required": "rack"}
    assert any("its pods are a gang by keys of phalanx.dev as well" in each for each in said(manifest)[0])


@every_kind
def test_a_queue_that_comes_to_one_that_is_there_is_told(row: Row) -> None:
    manifest = queued(row)
    faults, (told,) = said(manifest, exists=True)
    assert faults == []
    assert "came too late: " in told
    assert said(admitted(row), exists=True) == ([], [])


@every_kind
def test_what_is_not_kept_is_refused_or_told(row: Row) -> None:
    manifest = queued(row)
    manifest["metadata"]["labels"] |= {
        "kueue.x-k8s.io/priority-class": "p",
        "kueue.x-k8s.io/prebuilt-workload-name": "x",
    }
    faults, advice = said(manifest)
    assert any(
        "metadata[kueue.x-k8s.io/prebuilt-workload-name]: is not read: there are no Workload objects here" in each
        for each in faults
    )
    assert any("metadata[kueue.x-k8s.io/priority-class]: is ignored" in each for each in advice)


def test_the_name_is_kept_where_the_templates_are_written_anew_and_follows_the_workload() -> None:
    row = ROWS["StatefulSet"]
    old, new = admitted(row), queued(row)
    new["metadata"]["labels"] = {QUEUE: "other"}
    answer = workload_changed(new, old, Sources())
    assert isinstance(answer, Admitted)
    assert [each["value"] for each in answer.patch] == ["other"]
    late = workload_changed(new, queued(row), Sources())
    assert isinstance(late, Admitted)
    assert late.patch == ()
    made = workload_created(new, Sources())
    assert isinstance(made, Admitted)
    assert len(made.patch) == 1


RAY = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}


@pytest.mark.parametrize("place", ["the workload", "its templates"])
@pytest.mark.parametrize("kind", RAY)
def test_the_cluster_that_kuberay_makes_is_a_gang_of_the_queue(kind: str, place: str) -> None:
    cluster = ROWS["RayCluster"].manifest()
    if place == "its templates":
        for template in written(cluster):
            template["metadata"]["labels"] = {QUEUE: "q"}
    metadata: Object = {"name": "w", "namespace": "default"} | (
        {"labels": {QUEUE: "q"}} if place == "the workload" else {}
    )
    manifest = {"apiVersion": "ray.io/v1", "kind": kind, "metadata": metadata, "spec": {RAY[kind]: cluster["spec"]}}
    assert said(manifest) == ([], [])
    (gang,) = read_all(expanded(Sources(objects={key_of(manifest): manifest}))[0]).gangs
    assert (gang.key.name, gang.source.kind, gang.queue, len(gang.members)) == ("w-", "RayCluster", "q", 4)
    made = {**cluster, "metadata": {**metadata, "name": "w-x7k2p"}}
    made["metadata"]["ownerReferences"] = [owned(manifest)]
    stored: Any = as_admitted(made, Sources())
    pods = [pod_of(each) for each in ROWS["RayCluster"].pods(stored)]
    (gang,) = read_all(Sources(pods, {key_of(stored): stored})).gangs
    assert (gang.key.name, gang.queue, len(gang.members)) == ("w-x7k2p", "q", 4)


def test_ray_pods_that_name_a_gang_object_are_counted_once() -> None:
    cluster = ROWS["RayCluster"].manifest()
    for template in written(cluster):
        template["metadata"]["labels"] = {"phalanx.dev/gang": "g"}
    metadata = {"name": "w", "namespace": "default"}
    manifest = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": metadata,
        "spec": {"rayClusterSpec": cluster["spec"]},
    }
    own = {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": {"name": "g", "namespace": "default"}}
    own["spec"] = {"minMember": 4}
    (gang,) = read_all(expanded(Sources(objects={key_of(each): each for each in (manifest, own)}))[0]).gangs
    assert len(gang.members) == 4


@pytest.mark.parametrize("kind", ["JobSet", "MPIJob"])
def test_the_jobs_that_it_makes_are_no_gangs_of_their_own(kind: str) -> None:
    row = ROWS[kind]
    manifest = admitted(row)
    manifest["metadata"]["uid"] = "u"
    assert row.jobs is not None
    jobs = list(row.jobs(manifest))
    pods = [pod_of(each) for each in row.pods(manifest)]
    sources = Sources(pods, {key_of(each): each for each in (manifest, *jobs)})
    reading = read_all(sources)
    assert (reading.faults, [gang.key.name for gang in reading.gangs]) == ((), ["w"])
    assert len(reading.gangs[0].members) == 4
    for job in jobs:
        assert review(job, sources)[0] == []
        job["metadata"]["ownerReferences"][0]["uid"] = "another"
    (gang,) = read_all(Sources(pods, {key_of(each): each for each in (manifest, *jobs)})).gangs
    assert len(gang.members) == len([each for each in pods if each.metadata.owner_references[0].kind == kind])


@pytest.mark.parametrize("kind", MARKED)
def test_pods_whose_workload_is_not_there_wait_for_it(kind: str) -> None:
    manifest = admitted(ROWS[kind])
    (gang,) = read_all(Sources([pod_of(each) for each in ROWS[kind].pods(manifest)])).gangs
    assert (gang.key.name, gang.waiting_for) == (ROWS[kind].gang, (f"{kind} default/w",))


@pytest.mark.parametrize("name", IN_TURN)
def test_of_one_that_makes_pods_when_others_run_these_are_members_before_they_exist(name: str) -> None:
    """Admission accepts such workloads: the reserved capacity of their expected pods is charged to the queue."""
    kind, part, later = IN_TURN[name]
    row, written_so = ROWS[kind], queued(ROWS[kind])
    written_so["spec"] |= part
    assert said(written_so) == ([], [])
    manifest = admitted(row, written_so)
    manifest["metadata"]["uid"] = "u"
    pods = [pod_of(each) for each in row.pods(manifest)]
    first = [each for each in pods if each.metadata.name not in later]
    (gang,) = read_all(Sources(first, {key_of(manifest): manifest})).gangs
    coming = [member for member in gang.members if to_come(member.pod)]
    assert tuple(member.pod.metadata.name for member in coming) == later
    assert (gang.key.name, gang.queue, len(gang.members), gang.min_member) == (row.gang, "q", 4, 4)
    assert {member.pod_set for member in coming} == {role_of_seat(member.pod.metadata.uid) for member in coming}
    assert {member.pod_set for member in gang.members} == {each.name for each in gang.pod_sets}
    (whole,) = read_all(Sources(pods, {key_of(manifest): manifest})).gangs
    assert not whole.to_come
    assert [member.pod_set for member in whole.members] == [member.pod_set for member in gang.members]


def test_each_group_of_a_leader_worker_set_is_a_gang_of_the_queue() -> None:
    row = ROWS["LeaderWorkerSet"]
    written_so = queued(row)
    written_so["spec"]["replicas"] = 2
    manifest = admitted(row, written_so)
    pods = [pod_of(each) for each in row.pods(manifest)]
    sources = Sources(pods, {key_of(manifest): manifest})
    gangs = read_all(sources).gangs
    assert [(each.key.name, each.queue, len(each.members), each.min_member) for each in gangs] == [
        ("w-0", "q", 4, 4),
        ("w-1", "q", 4, 4),
    ]
    assert row.makers is not None
    made = [*row.makers(manifest)]
    assert [each.key.name for each in read_all(sources.changed({key_of(each): each for each in made})).gangs] == [
        "w-0",
        "w-1",
    ], "the StatefulSets that it has make its pods are no gangs of their own"


@pytest.mark.parametrize("kind", MARKED)
def test_a_queue_on_the_templates_alone_is_led_to_the_workload(kind: str) -> None:
    manifest: Any = ROWS[kind].manifest()
    for template in written(manifest):
        template["metadata"]["labels"] = {QUEUE: "q"}
    (fault,) = said(manifest)[0]
    assert f"pods of {kind}s are not read as one group yet; write the queue on the {kind} itself, or group" in fault


def test_pods_that_come_in_order_are_led_into_no_group_in_which_they_would_wait_for_ever() -> None:
    """The remedy was a group of plain pods, too: a driver in it waits for executors that it would make itself."""
    ready = {**ROWS["LeaderWorkerSet"].manifest()}
    ready["spec"]["startupPolicy"] = "LeaderReady"
    spark: Any = spark_application().manifest()
    for part in (*written(ready), *(spark["spec"][each] for each in ("driver", "executor"))):
        place = part.get("metadata", part)
        place["labels"] = {QUEUE: "q"}
    for manifest in (ready, spark):
        manifest["metadata"]["annotations"] = {}
        assert said(manifest)[0][0].endswith(f"; write the queue on the {manifest['kind']} itself")


def test_a_spark_application_is_in_a_queue_with_the_executors_that_its_driver_makes() -> None:
    """Admission accepts a SparkApplication in a queue: its expected executors are members of the gang."""
    row = spark_application()
    manifest = admitted(row, queued(row))
    assert said(queued(row)) == ([], [])
    driver, *executors = [pod_of(each) for each in row.pods(manifest)]
    (gang,) = read_all(Sources([driver], {key_of(manifest): manifest})).gangs
    assert (gang.key.dialect, gang.key.name, gang.queue, gang.min_member) == ("kueue", "w", "q", 4)
    assert {each.name: each.count for each in gang.pod_sets} == {"driver": 1, "executor": 3}
    assert [to_come(member.pod) for member in gang.members] == [False, True, True, True]
    (gang,) = read_all(Sources([driver, *executors], {key_of(manifest): manifest})).gangs
    assert (len(gang.members), gang.to_come) == (4, ())
