"""Systems that run in the cluster themselves: how that is known, what is left to them, what stays ours."""

from dataclasses import replace
from typing import Any

import pytest
from kueue_objects import POOL
from kueue_objects import job as kueue_job
from written import documents, pod, sources

from gangs.coexistence.ownership import systems_ceded_to
from gangs.dialects.claims import ceded_to_others, dialect_of
from gangs.dialects.expanding import expanded
from gangs.dialects.protection import protection
from gangs.dialects.reading import read_all
from gangs.dialects.reviewing import review
from gangs.dialects.templates import fields_for_child, queued, template_labels
from gangs.dialects.typos import typos_of
from gangs.sources import Sources
from kube.objects import Pod

Manifest = dict[str, Any]

MUTATING, VALIDATING = "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"
QUEUE = "kueue.x-k8s.io/queue-name"
ADOPT, LEAVE = "phalanx.dev/adopt", "phalanx.dev/leave"


def configuration(
    name: str, entry: str = "admission.example.com", namespace: str = "elsewhere", **more: Any
) -> Manifest:
    """A webhook configuration with one entry."""
    service = {"name": "webhook-service", "namespace": namespace, "path": "/mutate"}
    kind = MUTATING if "mutating" in name or name == "zz-phalanx" else VALIDATING
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, **more},
        "webhooks": [{"name": entry, "clientConfig": {"service": service}}],
    }


KUEUE = configuration("kueue-mutating-webhook-configuration", "mclusterqueue.kb.io", "kueue-system")
KOORDINATOR = configuration("koordinator-validating-webhook-configuration", "vpod.koordinator.sh", "koordinator-system")
KAI = configuration("mutating-kai-admission", "admission.kai-scheduler.svc", "kai-scheduler")
RUNAI = configuration("runai-validating", "runai.example.com", "runai")


def ours(**annotations: str) -> Manifest:
    """Our own webhook configuration, annotated by the names of the choices."""
    written = {f"phalanx.dev/{key}": value for key, value in annotations.items()}
    return configuration("zz-phalanx", "pods.phalanx.dev", "phalanx-system", annotations=written)


def cluster(*objects: Manifest, texts: tuple[str, ...] = (), pods: tuple[Pod, ...] = ()) -> Sources:
    """A cluster with these webhook configurations, and others' objects."""
    there = replace(sources(*texts), pods=pods)
    for each in objects:
        there = there.having(each)
    return there


@pytest.mark.parametrize(
    ("configurations", "left"),
    [
        ((), set()),
        ((ours(),), set()),
        ((configuration("gatekeeper-validating", "validation.gatekeeper.sh", "gatekeeper-system"),), set()),
        ((KUEUE,), {"kueue"}),
        ((configuration("kueue-mutating", "mclusterqueue.kb.io", "my-kueue"),), {"kueue"}),
        ((configuration("q-validating", "vclusterqueue.kb.io"),), {"kueue"}),
        ((configuration("q-mutating", "mjob.example.com", "kueue-system"),), {"kueue"}),
        ((KOORDINATOR,), {"koordinator"}),
        ((configuration("k-mutating", "mpod-create.koordinator.sh", "mine"),), {"koordinator"}),
        ((KAI,), {"kai", "runai"}),
        ((configuration("validating-kai-admission", "admission.my-kai.svc", "my-kai"),), {"kai", "runai"}),
        ((configuration("kai-podgroup-validation-v2alpha2", "podgroup.my-kai.svc", "my-kai"),), {"kai", "runai"}),
        ((RUNAI,), {"kai", "runai"}),
        ((KUEUE, KOORDINATOR, KAI), {"kueue", "koordinator", "kai", "runai"}),
        ((KUEUE, KOORDINATOR, ours(adopt="kueue")), {"koordinator"}),
        ((KUEUE, KOORDINATOR, KAI, ours(adopt=" kueue, koordinator")), {"kai", "runai"}),
        ((KAI, ours(adopt="kai")), set()),
        ((KAI, ours(adopt="runai")), {"kai"}),
        ((KUEUE, KOORDINATOR, KAI, RUNAI, ours(adopt="all")), set()),
        ((ours(leave="koordinator,ack"),), {"koordinator", "ack"}),
        ((ours(leave="kueu"),), set()),
        ((KUEUE, ours(adopt="kueue", leave="kueue")), set()),
    ],
)
def test_whose_keys_are_left_to_others(configurations: tuple[Manifest, ...], left: set[str]) -> None:
    found = systems_ceded_to(cluster(*configurations))
    assert {name for name, each in found.items() if not each.by_default} == left


def test_definitions_alone_are_no_evidence() -> None:
    definitions = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    name = {"metadata": {"name": "clusterqueues.kueue.x-k8s.io"}}
    assert systems_ceded_to(cluster({**definitions, **name}, texts=(POOL,))) == {}


def test_a_webhook_that_is_reached_by_url_is_known_by_its_name() -> None:
    entry = {"name": "vpod.koordinator.sh", "clientConfig": {"url": "https://koordinator.example.com"}}
    assert systems_ceded_to(cluster({**KOORDINATOR, "webhooks": [entry]})).keys() == {"koordinator"}


def test_a_configuration_without_webhooks_is_no_evidence() -> None:
    assert systems_ceded_to(cluster({**KUEUE, "webhooks": None})) == {}


def test_a_job_of_kueue_is_neither_labelled_nor_resumed_nor_read_and_its_user_is_told() -> None:
    job = documents(kueue_job(required_topology="example.com/rack"))[0]
    job["spec"]["suspend"] = True
    there = cluster(KUEUE, texts=(POOL,))
    assert template_labels(job, there) == {}
    assert not queued(job, there)
    assert read_all(expanded(there.having(job))[0]).gangs == ()
    faults, advice = review(job, there)
    assert faults == []
    (told,) = map(str, advice)
    assert told == (
        "Job default/train: metadata: is left to Kueue, which runs in this cluster (MutatingWebhookConfiguration "
        "kueue-mutating-webhook-configuration); for Phalanx to place it, annotate MutatingWebhookConfiguration "
        "zz-phalanx with phalanx.dev/adopt: kueue"
    )


def test_what_would_be_refused_of_a_system_that_runs_is_its_own_business() -> None:
    wrong = documents(kueue_job(required_topology="moon", slice_size="3"))[0]
    assert review(wrong, cluster(texts=(POOL,)))[0]
    assert review(wrong, cluster(KUEUE, texts=(POOL,)))[0] == []
    queue = next(each for each in documents(POOL) if each["kind"] == "ClusterQueue")
    queue["spec"]["resourceGroups"][0]["coveredResources"] = ["memory"]
    assert review(queue, cluster())[0]
    faults, advice = review(queue, cluster(KUEUE))
    assert (faults, len(advice)) == ([], 1)


def test_a_workload_that_cannot_be_queued_here_is_not_refused_where_kueue_runs() -> None:
    metadata = {"name": "web", "namespace": "default", "labels": {QUEUE: "q"}}
    replica_set = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": {}}
    assert "cannot be queued" in str(review(replica_set, cluster())[0])
    faults, advice = review(replica_set, cluster(KUEUE))
    assert (faults, len(advice)) == ([], 1)


@pytest.mark.parametrize(
    ("api_version", "kind", "spec"),
    [
        ("apps/v1", "Deployment", {"template": {}}),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [{"template": {"spec": {"template": {}}}}]}),
    ],
)
def test_a_workload_in_a_queue_is_left_to_kueue_where_that_runs(
    api_version: str, kind: str, spec: dict[str, object]
) -> None:
    metadata = {"name": "web", "namespace": "default", "labels": {QUEUE: "q"}}
    manifest = {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
    assert template_labels(manifest, cluster(KUEUE)) == {}
    assert template_labels(manifest, cluster())[QUEUE] == "q"
    faults, advice = review(manifest, cluster(KUEUE))
    assert (faults, len(advice)) == ([], 1)


@pytest.mark.parametrize("kind", ["StatefulSet", "Deployment"])
def test_workloads_whose_pods_ask_are_left_to_their_system_and_it_is_said(kind: str) -> None:
    template = {"metadata": {"annotations": {"kueue.x-k8s.io/podset-required-topology": "example.com/rack"}}}
    workload = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web", "namespace": "default", "labels": {"kueue.x-k8s.io/pod-group-name": "g"}},
        "spec": {"replicas": 2, "template": template},
    }
    there = cluster(KUEUE, texts=(POOL,))
    faults, advice = review(workload, there)
    assert faults == []
    assert [str(each).partition(", which")[0] for each in advice] == [f"{kind} default/web: metadata: is left to Kueue"]
    assert typos_of(workload, there, advice) == []
    assert len(typos_of(workload, cluster(texts=(POOL,)), ())) == 1
    assert read_all(expanded(there.having(workload))[0]).gangs == ()


def test_a_queue_is_handed_down_by_kueue_where_it_runs() -> None:
    metadata = {"name": "w", "namespace": "default", "labels": {QUEUE: "q"}}
    spec = {"runtimeRef": {"name": "torch"}}
    job = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": metadata, "spec": spec}
    assert list(fields_for_child(job, None, cluster()))
    assert list(fields_for_child(job, None, cluster(KUEUE))) == []


def test_keys_on_jobs_that_are_kueues_business_are_not_told_of() -> None:
    entry = {"name": "a", "template": {"metadata": {"labels": {QUEUE: "q"}}, "spec": {"template": {"spec": {}}}}}
    metadata = {"name": "w", "namespace": "default"}
    job_set: Manifest = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata}
    job_set["spec"] = {"replicatedJobs": [entry]}
    assert len(typos_of(job_set, cluster(), ())) == 1
    assert typos_of(job_set, cluster(KUEUE), ()) == []


def test_a_job_of_nobody_gets_no_warning() -> None:
    plain = documents(kueue_job(queue=None))[0]
    assert review(plain, cluster(KUEUE, KOORDINATOR, KAI)) == ([], [])


def test_faults_of_others_topologies_are_not_ours_but_the_topologies_are_known() -> None:
    wrong = POOL.replace("topologyName: default", "topologyName: default, nodeTaints: 3")
    assert read_all(cluster(texts=(wrong,))).faults
    assert read_all(cluster(KUEUE, texts=(wrong,))).faults == ()


QUEUED = {QUEUE: "q"}
REASON = "it belongs to a system that runs in this cluster itself"


@pytest.mark.parametrize(
    ("labels", "annotations", "reason"),
    [
        ({}, {}, ""),
        (QUEUED, {}, REASON),
        ({"kueue.x-k8s.io/podset": "main"}, {}, REASON),
        ({}, {"kueue.x-k8s.io/workload": "job-train-1"}, REASON),
        ({**QUEUED, "phalanx.dev/dialect": "kueue"}, {}, ""),
        ({"pod-group.scheduling.sigs.k8s.io": "g"}, {}, ""),
        (
            {"quota.scheduling.koordinator.sh/preemptible": "false"},
            {},
            "label quota.scheduling.koordinator.sh/preemptible=false",
        ),
    ],
)
def test_pods_of_a_system_that_runs_here_are_never_victims(
    labels: dict[str, str], annotations: dict[str, str], reason: str
) -> None:
    mine = pod("p", labels=labels, annotations=annotations)
    assert protection(cluster(KUEUE).objects)(mine) == reason
    assert protection(cluster().objects)(mine) == ("" if reason == REASON else reason)


def test_protections_are_equal_where_the_same_systems_run() -> None:
    assert protection(cluster(KUEUE).objects) == protection(cluster(KUEUE, texts=(POOL,)).objects)
    assert protection(cluster(KUEUE).objects) != protection(cluster(KUEUE, ours(adopt="kueue")).objects)


def test_users_exempt_no_pods_of_their_own_where_the_cluster_does_not_want_it() -> None:
    exempt = pod("p", labels={"quota.scheduling.koordinator.sh/preemptible": "false"})
    theirs = pod("q", labels=QUEUED)
    assert protection(cluster().objects)(exempt)
    strict = protection(cluster(KUEUE, ours(exemptions="ignored")).objects)
    assert (strict(exempt), strict(theirs)) == ("", REASON)
    assert protection(cluster(KUEUE, ours(exemptions="no")).objects)(exempt)


def test_our_own_way_of_asking_goes_on_beside_a_queue_of_kueue() -> None:
    job = documents(kueue_job())[0]
    job["metadata"]["annotations"] = {"phalanx.dev/gang": "true"}
    assert template_labels(job, cluster(KUEUE)) == {"phalanx.dev/workload": "Job"}


def test_a_job_of_kueue_is_no_automatic_gang() -> None:
    namespaces = {"default": {"phalanx.dev/automatic": "true"}}
    there = replace(cluster(KUEUE), namespaces=namespaces)
    assert template_labels(documents(kueue_job(queue=None))[0], there) == {"phalanx.dev/workload": "Job"}
    assert template_labels(documents(kueue_job())[0], there) == {}


GROUP = {"kueue.x-k8s.io/pod-group-name": "g"}
TOTAL = {"kueue.x-k8s.io/pod-group-total-count": "2"}
ADMITTED = {"phalanx.dev/dialect": "kueue", "phalanx.dev/gang": "g"}


def test_a_pod_of_kueue_has_no_gang_here_until_kueue_is_gone() -> None:
    mine = pod("p", labels=GROUP, annotations=TOTAL)
    assert dialect_of(mine, ceded_to_others(cluster(KUEUE, pods=(mine,)))) is None
    assert read_all(cluster(KUEUE, pods=(mine,))).gangs == ()
    assert len(read_all(cluster(pods=(mine,))).gangs) == 1


def test_a_gang_that_has_begun_is_carried_to_its_end_with_the_members_that_still_come() -> None:
    first = pod("p0", labels={**GROUP, **ADMITTED}, annotations=TOTAL)
    second = pod("p1", labels=GROUP, annotations=TOTAL)
    other = pod("q", labels={"kueue.x-k8s.io/pod-group-name": "other"}, annotations=TOTAL)
    there = cluster(KUEUE, pods=(first, second, other))
    left = ceded_to_others(there)
    assert [str(key) for key in left.carried] == ["default/g"]
    assert [dialect_of(each, left) is None for each in (first, second, other)] == [False, False, True]
    (gang,) = read_all(there).gangs
    assert [member.pod.metadata.name for member in gang.members] == ["p0", "p1"]


def test_beside_a_gang_that_is_carried_nothing_is_said_of_what_is_not_ours() -> None:
    begun = pod("p0", labels={**GROUP, **ADMITTED}, annotations=TOTAL)
    wrong_pod = pod("q", labels={"kueue.x-k8s.io/pod-group-name": "theirs"})
    (wrong_job,) = documents(kueue_job(meta={"job-min-parallelism": "many"}))
    wrong_job["spec"]["template"]["metadata"]["labels"] = {QUEUE: "q"}
    there = cluster(wrong_job, pods=(begun, wrong_pod))
    assert len(read_all(there).faults) == 2
    reading = read_all(there.having(KUEUE))
    assert reading.faults == ()
    assert [gang.key.name for gang in reading.gangs] == ["g"]


@pytest.mark.parametrize("state", [{"phase": "Succeeded"}, {"phase": "Failed"}])
def test_a_gang_whose_members_have_ended_is_carried_no_more(state: dict[str, str]) -> None:
    ended = pod("p0", labels={**GROUP, **ADMITTED}, annotations=TOTAL, status=state)
    there = cluster(KUEUE, pods=(ended,))
    assert dialect_of(ended, ceded_to_others(there)) is None
    assert read_all(there).gangs == ()


def test_what_is_left_is_read_for_what_it_needs_to_run() -> None:
    group = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "theirs", "namespace": "default"},
        "spec": {"minMember": 2},
    }
    members = tuple(
        pod(name, labels={"pod-group.scheduling.sigs.k8s.io": "theirs"}) for name in ("theirs-0", "theirs-1")
    )
    there = cluster(KOORDINATOR, pods=members).having(group)
    reading = read_all(there)
    assert (reading.gangs, reading.faults, reading.astray) == ((), (), ())
    (gang,) = reading.neighbours
    assert (str(gang.key), gang.min_member, len(gang.members)) == ("default/theirs", 2, 2)
    assert read_all(cluster(pods=members).having(group)).neighbours == ()
