"""A Gang that names a queue: where it is charged, what it waits for, and which other objects may name its queue.

The cluster is that of `kueue_objects.POOL`: LocalQueue default/q leads to ClusterQueue pool, whose flavor tas has the
Topology default of blocks and racks.
"""

from typing import Any

import pytest
import yaml
from kueue_objects import GROUP, POOL, job
from written import DATACENTER, documents, pod, sources

from gangs.dialects.expanding import expanded
from gangs.dialects.reading import read_all
from gangs.dialects.reviewing import review
from gangs.manifests import key_of, pod_of
from gangs.model import Gang, Reading
from gangs.sources import Sources
from gangs.topology.levels import NO_TOPOLOGY
from kube.objects import Pod
from webhook.admission.object_reviews import checked
from webhook.admission.reviews import Refused

QUEUE_NAME = f"{GROUP}/queue-name"
KUEUE_RUNS = """
    apiVersion: admissionregistration.k8s.io/v1
    kind: MutatingWebhookConfiguration
    metadata: {name: kueue-mutating-webhook-configuration, namespace: ""}
    webhooks: [{name: mclusterqueue.kb.io}]
"""
ADOPTED = """
    apiVersion: admissionregistration.k8s.io/v1
    kind: MutatingWebhookConfiguration
    metadata: {name: zz-phalanx, namespace: "", annotations: {phalanx.dev/adopt: kueue}}
"""


def gang(name: str = "llm", namespace: str = "default", status: str = "{}", **spec: Any) -> str:
    """A Gang of two, in the queue q unless another one, or None, is given."""
    written = yaml.safe_dump({"minMember": 2, "queue": "q", **spec}, default_flow_style=True, width=1000).strip()
    return f"""
        apiVersion: phalanx.dev/v1alpha1
        kind: Gang
        metadata: {{name: {name}, namespace: {namespace}}}
        spec: {written}
        status: {status}
    """


def member(name: str, queue: str = "", **more: Any) -> Pod:
    """A pod of the Gang llm, in a queue of its own if one is given."""
    return pod(name, labels={"phalanx.dev/gang": "llm", **({QUEUE_NAME: queue} if queue else {})}, **more)


def read(*texts: str, pods: tuple[Pod, ...] = ()) -> Reading:
    return read_all(Sources(pods, sources(*texts).objects))


def read_one(*texts: str, pods: tuple[Pod, ...] = ()) -> Gang:
    reading = read(*texts, pods=pods)
    assert reading.faults == ()
    (found,) = reading.gangs
    return found


def without(*kinds: str) -> tuple[str, ...]:
    """Return the pool's objects without those of some kinds, each as YAML."""
    return tuple(yaml.safe_dump(each) for each in documents(POOL) if each["kind"] not in kinds)


def with_spec(kind: str, **changed: Any) -> tuple[str, ...]:
    """Return the pool's objects, each as YAML; objects of one kind get other spec fields."""
    found = documents(POOL)
    for each in found:
        if each["kind"] == kind:
            each["spec"].update(changed)
    return tuple(map(yaml.safe_dump, found))


def test_a_gang_is_charged_as_a_job_of_the_same_queue_is() -> None:
    ours, (manifest,) = read_one(POOL, gang()), documents(job())
    whole, _ = expanded(Sources(objects={**sources(POOL).objects, key_of(manifest): manifest}))
    (theirs,) = read_all(whole).gangs
    assert ours.account is not None
    assert theirs.account is not None
    assert (ours.account.queue, ours.account.flavors) == (theirs.account.queue, theirs.account.flavors)
    assert (ours.account.cohort, ours.account.cohorts) == (theirs.account.cohort, theirs.account.cohorts)
    assert (ours.queue, ours.queue_dialect) == (theirs.queue, theirs.queue_dialect) == ("q", "kueue")


WAITS = {
    "no such queue": (POOL, gang(queue="z"), "LocalQueue default/z"),
    "a queue of another namespace": (POOL, gang(namespace="team"), "LocalQueue team/q"),
    "no ClusterQueue": ("\n---\n".join(without("ClusterQueue")), gang(), "ClusterQueue pool"),
    "no flavor": ("\n---\n".join(without("ResourceFlavor")), gang(), "ResourceFlavor tas"),
    "no topology": ("\n---\n".join(without("Topology")), gang(), "Topology default"),
    "a stopped LocalQueue": (
        "\n---\n".join(with_spec("LocalQueue", stopPolicy="Hold")),
        gang(),
        "LocalQueue default/q to be resumed (spec.stopPolicy)",
    ),
    "a drained ClusterQueue": (
        "\n---\n".join(with_spec("ClusterQueue", stopPolicy="HoldAndDrain")),
        gang(),
        "ClusterQueue pool to be resumed (spec.stopPolicy)",
    ),
}


@pytest.mark.parametrize(("around", "asked", "waits_for"), WAITS.values(), ids=WAITS)
def test_it_waits_for_what_a_job_of_that_queue_waits_for(around: str, asked: str, waits_for: str) -> None:
    found = read_one(around, asked)
    assert found.waiting_for == (waits_for,)
    (manifest,) = documents(job(queue=found.queue))
    manifest["metadata"]["namespace"] = found.key.namespace
    whole, _ = expanded(Sources(objects={**sources(around).objects, key_of(manifest): manifest}))
    assert [each.waiting_for for each in read_all(whole).gangs] == [(waits_for,)]
    refused, told = review(documents(asked)[0], sources(around))
    assert refused == []
    assert any(waits_for in str(each) for each in told)


def test_what_runs_stays_charged_while_its_queue_is_stopped() -> None:
    stopped = "\n---\n".join(with_spec("LocalQueue", stopPolicy="Hold"))
    found = read_one(stopped, gang(status="{flavors: [tas]}"))
    assert found.account is not None
    assert found.account.used == ("tas",)


@pytest.mark.parametrize("status", ["{flavors: 3}", "{flavors: [3]}", "3", "null"])
def test_a_status_that_says_nothing_readable_names_no_flavor(status: str) -> None:
    found = read_one(POOL, gang(status=status))
    assert found.account is not None
    assert found.account.used == ()


def test_without_any_queue_its_name_is_a_label_and_that_is_told() -> None:
    found = read_one(gang())
    assert (found.queue, found.queue_dialect, found.account, found.waiting_for) == ("q", "", None, ())
    refused, told = review(documents(gang())[0], Sources())
    assert refused == []
    assert list(map(str, told)) == [
        (
            "Gang default/llm: spec.queue: is a label and charges nothing: there is no queue q in default, nor any "
            "quota; make the queue, or leave this out"
        )
    ]


@pytest.mark.parametrize("queue", [None, ""])
def test_a_gang_without_a_queue_is_charged_to_nobody(queue: str | None) -> None:
    found = read_one(POOL, gang(queue=queue))
    assert (found.account, found.queue_dialect, found.waiting_for) == (None, "", ())


def test_each_namespace_has_the_queue_of_its_own() -> None:
    theirs = """
        apiVersion: kueue.x-k8s.io/v1beta1
        kind: LocalQueue
        metadata: {name: q, namespace: team}
        spec: {clusterQueue: other}
        ---
        apiVersion: kueue.x-k8s.io/v1beta1
        kind: ClusterQueue
        metadata: {name: other, namespace: ""}
        spec: {namespaceSelector: {}}
    """
    found = {each.key.namespace: each for each in read(POOL, theirs, gang(), gang(namespace="team")).gangs}
    assert {name: each.account.queue.name for name, each in found.items() if each.account} == {
        "default": "pool",
        "team": "other",
    }


# The queue that a gang's pods and their workloads name


def test_a_queue_that_its_pods_name_too_is_charged_once() -> None:
    found = read_one(POOL, gang(), pods=(member("llm-0", "q"), member("llm-1", "q")))
    assert (found.key.dialect, len(found.members)) == ("phalanx", 2)


def test_another_queue_on_a_pod_is_refused_and_both_are_named() -> None:
    reading = read(POOL, gang(), pods=(member("llm-0", "q"), member("llm-1", "z")))
    assert [str(each) for each in reading.faults] == [
        (
            f'Pod default/llm-1: metadata.labels[{QUEUE_NAME}]: "z" differs from "q", the queue of Gang default/llm '
            "(spec.queue); write the same in both, or leave one of them out"
        )
    ]
    older = pod("llm-0", labels={"phalanx.dev/gang": "llm"}, annotations={QUEUE_NAME: "z"})
    (fault,) = read(POOL, gang(), pods=(older,)).faults
    assert fault.field == f"metadata.annotations[{QUEUE_NAME}]"


def test_a_pod_that_has_been_let_go_frees_no_quota_by_naming_another_queue() -> None:
    reading = read(POOL, gang(), pods=(member("llm-0", "z", nodeName="n"), member("llm-1")))
    assert reading.faults == ()
    (told,) = (each for each in reading.advice if each.object.kind == "Pod")
    assert told.field == f"metadata.labels[{QUEUE_NAME}]"
    assert told.text == "counts for nothing: it is charged to q, as Gang default/llm says"
    (found,) = reading.gangs
    assert found.account is not None


def test_a_queue_on_pods_of_a_gang_without_one_is_told_to_count_for_nothing() -> None:
    reading = read(POOL, gang(queue=None), pods=(member("llm-0", "q"),))
    assert reading.faults == ()
    assert [str(each) for each in reading.advice if each.object.kind == "Pod"] == [
        (
            f"Pod default/llm-0: metadata.labels[{QUEUE_NAME}]: is ignored: Gang default/llm, whose member this is, is "
            "in no queue; write queue: q into its spec"
        )
    ]


GROUP_LABEL = {"pod-group.scheduling.sigs.k8s.io": "llm"}
POD_GROUP = """
    apiVersion: scheduling.sigs.k8s.io/v1alpha1
    kind: PodGroup
    metadata: {name: llm, namespace: default}
    spec: {minMember: 2}
"""


def test_a_queue_on_pods_of_a_gang_in_keys_without_queues_is_told_to_count_for_nothing() -> None:
    pods = (
        pod("llm-0", labels={**GROUP_LABEL, QUEUE_NAME: "q"}),
        pod("llm-1", labels={**GROUP_LABEL, QUEUE_NAME: "q"}, nodeName="n"),
    )
    reading = read(POOL, POD_GROUP, pods=pods)
    assert reading.faults == ()
    assert [str(each) for each in reading.advice if each.object.kind == "Pod"] == [
        (
            f"Pod default/llm-0: metadata.labels[{QUEUE_NAME}]: is ignored: gang default/llm, whose member this is, is "
            "in no queue, so no quota limits it; name queue: q in a Gang object instead of the other keys, or remove "
            "the queue's name"
        )
    ]


@pytest.mark.parametrize("texts", [(POD_GROUP,), (POOL, POD_GROUP, KUEUE_RUNS)], ids=["no queues", "Kueue runs"])
def test_a_queue_that_limits_nothing_here_is_not_mentioned(texts: tuple[str, ...]) -> None:
    """Without queue objects the name is a label only. If Kueue runs, it counts the quota itself."""
    reading = read(*texts, pods=(pod("llm-0", labels={**GROUP_LABEL, QUEUE_NAME: "q"}),))
    assert [each for each in reading.advice if "is ignored" in each.text] == []


def workload(kind: str, on_itself: str, on_template: str) -> dict[str, Any]:
    """A Job or another workload of two pods of the Gang llm, with queues on itself and on its template."""

    def labels(queue: str) -> dict[str, str]:
        return {QUEUE_NAME: queue} if queue else {}

    template = {"metadata": {"labels": {"phalanx.dev/gang": "llm", **labels(on_template)}}, "spec": {}}
    size = {"parallelism": 2, "completions": 2} if kind == "Job" else {"replicas": 2}
    return {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": {"name": "w", "namespace": "default", "labels": labels(on_itself)},
        "spec": {**size, "template": template},
    }


BOTH = [
    ("Job", "q", ""),
    ("Job", "", "q"),
    ("Job", "q", "q"),
    ("StatefulSet", "q", ""),
    ("StatefulSet", "", "q"),
    ("Deployment", "q", ""),
    ("Deployment", "", "q"),
]


@pytest.mark.parametrize("asked", BOTH, ids=str)
def test_a_workload_of_its_pods_may_name_the_same_queue(asked: tuple[str, str, str]) -> None:
    manifest = workload(*asked)
    assert review(manifest, sources(POOL, gang()))[0] == []
    there = sources(POOL, gang()).having(manifest)
    reading = read_all(expanded(there)[0])
    assert reading.faults == ()
    assert [(each.key.dialect, each.key.name) for each in reading.gangs] == [("phalanx", "llm")]


@pytest.mark.parametrize("asked", BOTH, ids=str)
def test_another_queue_there_is_refused_and_both_are_named(asked: tuple[str, str, str]) -> None:
    refused, _ = review(workload(*asked), sources(POOL, gang(queue="z")))
    assert len(refused) == 1
    assert '"q" differs from "z", the queue of Gang default/llm (spec.queue)' in str(refused[0])
    refused, _ = review(workload(*asked), sources(POOL, gang(queue=None)))
    assert ['"q" is no queue of Gang default/llm' in str(each) for each in refused] == [True]


@pytest.mark.parametrize("asked", BOTH, ids=str)
def test_such_a_workload_may_come_before_its_gang(asked: tuple[str, str, str]) -> None:
    assert review(workload(*asked), sources(POOL))[0] == []


# Where it is placed


def test_a_gang_that_names_no_topology_has_that_of_its_flavor() -> None:
    found = read_one(POOL, DATACENTER, gang(required="example.com/rack"))
    assert (found.topology, found.topology_kind, found.required) == (None, NO_TOPOLOGY, "example.com/rack")
    (fault,) = read(POOL, DATACENTER, gang(required="rack")).faults
    assert str(fault).startswith(
        'Gang default/llm: spec.required: "rack" is not a level of Topology.kueue.x-k8s.io default'
    )


def test_a_gang_that_names_one_has_that() -> None:
    found = read_one(POOL, DATACENTER, gang(required="rack", topology="datacenter"))
    assert (found.topology, found.topology_kind) == ("datacenter", None)
    assert found.account is not None
    assert not found.account.only_theirs


def test_where_no_flavor_has_one_it_is_that_of_any_gang() -> None:
    plain = "\n---\n".join(
        yaml.safe_dump(
            {**each, "spec": {"nodeLabels": {"ready": "true"}}} if each["kind"] == "ResourceFlavor" else each
        )
        for each in documents(POOL)
        if each["kind"] != "Topology"
    )
    found = read_one(plain, DATACENTER, gang(required="rack"))
    assert (found.topology, found.topology_kind) == (None, None)
    assert read(plain, DATACENTER, gang(required="row")).faults


def test_levels_are_left_open_until_the_queue_is_there() -> None:
    """Which of the two topologies is meant will be known with the queue."""
    found = read_one(*without("LocalQueue"), DATACENTER, gang(required="example.com/rack"))
    assert found.waiting_for == ("LocalQueue default/q",)


def test_a_gang_that_runs_keeps_its_account_whatever_becomes_of_the_levels() -> None:
    running = tuple(member(f"llm-{i}", nodeName="n") for i in range(2))
    found = read_one(POOL, DATACENTER, gang(required="rack"), pods=running)
    assert found.account is not None


def test_a_gang_that_has_started_stays_charged_and_says_what_is_to_be_put_right() -> None:
    """With a member that is to replace another one: nothing is planned for it until then."""
    runs, comes = member("llm-0", nodeName="n"), member("llm-1")
    lost = gang(required="example.com/row")
    reading = read(POOL, lost, pods=(runs, comes))
    (found,), (fault,) = reading.gangs, reading.faults
    assert found.account is not None
    problem = '"example.com/row" is not a level of Topology.kueue.x-k8s.io default'
    assert found.waiting_for == (f"Gang default/llm to be corrected (spec.required: {problem}; {fault.remedy})",)
    reading = read(POOL, gang(), pods=(runs, member("llm-1", "z")))
    (found,) = reading.gangs
    assert [each.partition(" (")[0] for each in found.waiting_for] == ["Pod default/llm-1 to be corrected"]
    (found,) = read(POOL, gang(), pods=(runs, *(member(f"llm-{i}", "z" * 2000) for i in range(1, 9)))).gangs
    assert (len(found.waiting_for), found.waiting_for[-1]) == (6, "3 more like these")
    assert max(map(len, found.waiting_for)) < 1200
    assert read(POOL, lost, pods=(comes,)).gangs == ()
    assert read(POOL, gang(minMember=-1), pods=(runs,)).gangs == ()


def test_a_job_in_a_queue_that_has_started_does_so_too() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
    runs, comes = pod("train-0", owner=owner, nodeName="n"), pod("train-1", owner=owner)
    lost = job(2, required_topology="example.com/row").replace("name: train,", "name: train, uid: u,")
    reading = read(POOL, lost, pods=(runs, comes))
    (found,), (fault,) = reading.gangs, reading.faults
    assert found.account is not None
    assert found.waiting_for == (f"{fault.object} to be corrected ({fault.field}: {fault.problem}; {fault.remedy})",)
    assert read(POOL, lost, pods=(comes,)).gangs == ()


# Where Kueue itself runs

LEFT = (
    "queue default/q to be counted by Phalanx: it is left to Kueue, which runs in this cluster "
    "(MutatingWebhookConfiguration kueue-mutating-webhook-configuration), which counts no Gang; leave spec.queue out, "
    "or annotate MutatingWebhookConfiguration zz-phalanx with phalanx.dev/adopt: kueue"
)


def test_where_kueue_itself_runs_the_gang_waits_and_says_what_to_do() -> None:
    assert read_one(POOL, KUEUE_RUNS, gang()).waiting_for == (LEFT,)
    refused, told = review(documents(gang())[0], sources(POOL, KUEUE_RUNS))
    assert refused == []
    assert [str(each) for each in told] == [f"Gang default/llm: metadata.name: the gang default/llm waits for {LEFT}"]
    assert read_one(POOL, KUEUE_RUNS, ADOPTED, gang()).waiting_for == ()


def test_where_kueue_itself_runs_a_gang_that_has_started_stays_ours() -> None:
    found = read_one(POOL, KUEUE_RUNS, gang(), pods=(member("llm-0", nodeName="n"), member("llm-1")))
    assert found.waiting_for == ()
    assert found.account is not None


def test_where_kueue_itself_runs_the_queues_of_pods_are_its_business() -> None:
    reading = read(POOL, KUEUE_RUNS, gang(queue=None), pods=(member("llm-0", "z"),))
    assert (reading.faults, [each for each in reading.advice if each.object.kind == "Pod"]) == ((), [])


def test_a_pod_in_another_queue_is_refused_as_it_arrives() -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "labels": {"phalanx.dev/gang": "llm", QUEUE_NAME: "z"}},
        "spec": {},
    }
    assert pod_of(manifest).metadata.name == "p"
    refused, _ = review(manifest, sources(POOL, gang()))
    assert ['"z" differs from "q"' in str(each) for each in refused] == [True]


# Changes of the queue after the creation

MOVES = {
    "to another queue": ({"queue": "q"}, {"queue": "z"}, "in queue q and cannot go on in queue z"),
    "out of it": ({"queue": "q"}, {"queue": None}, "in queue q and cannot go on in no queue"),
    "into one": ({"queue": None}, {"queue": "q"}, "in no queue and cannot go on in queue q"),
    "nowhere": ({"queue": "q"}, {"queue": "q", "minMember": 1}, ""),
}


def moved(before: dict[str, Any], after: dict[str, Any], around: str, *pods: Pod) -> str:
    """Return the message that refuses a change of a Gang; empty if the change is allowed."""
    (old,), (new,) = documents(gang(**before)), documents(gang(**after))
    there = Sources(pods, sources(around, gang(**before)).objects) if around else Sources(pods)
    match checked(new, old, there, lambda _: ()):
        case Refused(message):
            return message
        case _:
            return ""


@pytest.mark.parametrize(("before", "after", "said"), MOVES.values(), ids=MOVES)
def test_what_runs_stays_in_its_queue(before: dict[str, Any], after: dict[str, Any], said: str) -> None:
    runs, waits = member("llm-0", nodeName="n"), member("llm-1")
    fault = f"Gang default/llm: spec.queue: the gang has started {said}; leave it as it is until its pods have gone"
    assert moved(before, after, POOL, runs, waits) == (fault if said else "")
    assert moved(before, after, POOL, waits) == ""
    assert moved(before, after, "", runs, waits) == ""
