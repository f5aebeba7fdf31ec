"""Jobs that ask to be gangs by annotations, and automatic namespaces."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from written import DATACENTER, documents, sources

from controller.gang_status import Phase, gang_status, waiting_line
from gangs.dialects.claims import dialect_of
from gangs.dialects.expanding import expanded
from gangs.dialects.reading import read_all
from gangs.dialects.templates import as_admitted, template_labels
from gangs.model import CreationDelay, GangKey, PodSet, Reading
from gangs.sources import Sources
from gangs.workloads.jobs import TRACKING
from kube.objects import PodStatus
from kube.placeholders import seat_uid
from planning.stories.facts import GangFacts, presence

AUTOMATIC = {"default": {"phalanx.dev/automatic": "true"}}
LABEL = {"phalanx.dev/workload": "Job"}


def job(
    annotations: str = '{phalanx.dev/gang: "true"}',
    spec: str = "{parallelism: 4}",
    template: str = "{}",
    status: str = "{}",
) -> str:
    return f"""
        apiVersion: batch/v1
        kind: Job
        metadata: {{name: train, annotations: {annotations}}}
        spec: {{template: {{metadata: {{labels: {template}}}, spec: {{}}}}, {spec[1:-1]}}}
        status: {status}
    """


def reading_of(*texts: str, namespaces: dict[str, dict[str, str]] | None = None) -> Reading:
    grown, faults = expanded(sources(*texts, namespaces=namespaces))
    assert faults == []
    return read_all(grown)


OPTING = {
    "the annotation": ('{phalanx.dev/gang: "true"}', {}, LABEL),
    "any wish of ours": ("{phalanx.dev/required: rack}", {}, LABEL),
    "nothing, which leaves it alone": ("{}", {}, {}),
    "another's annotation, which does too": ("{example.com/gang: x}", {}, {}),
    "an automatic namespace": ("{}", AUTOMATIC, LABEL),
    "an automatic namespace, which it declines": ('{phalanx.dev/gang: "false"}', AUTOMATIC, {}),
    "an explicit no beside a wish": ('{phalanx.dev/gang: "false", phalanx.dev/required: rack}', {}, {}),
}


@pytest.mark.parametrize(("annotations", "namespaces", "labels"), OPTING.values(), ids=OPTING)
def test_a_job_is_labelled_at_its_admission_by(
    annotations: str, namespaces: dict[str, dict[str, str]], labels: dict[str, str]
) -> None:
    written = sources(job(annotations), namespaces=namespaces)
    (manifest,) = written.objects.values()
    assert template_labels(manifest, written) == labels


@pytest.mark.parametrize(
    ("spec", "template"),
    [("{parallelism: 1}", "{}"), ("{parallelism: 4}", "{pod-group.scheduling.sigs.k8s.io: g}")],
    ids=["one pod", "pods that name a gang already"],
)
def test_an_automatic_namespace_leaves_alone(spec: str, template: str) -> None:
    written = sources(job("{}", spec, template), namespaces=AUTOMATIC)
    (manifest,) = written.objects.values()
    assert template_labels(manifest, written) == {}


def test_admission_labels_the_template_and_nothing_else() -> None:
    (manifest,) = documents(job(template="{app: x}"))
    before = msgspec.json.encode(manifest)
    admitted = as_admitted(manifest, Sources())
    assert admitted["spec"]["template"]["metadata"]["labels"] == {"app": "x", **LABEL}
    assert {**admitted, "spec": None} == {**manifest, "spec": None}
    assert msgspec.json.encode(manifest) == before
    assert as_admitted(admitted, Sources()) == admitted


GANGS = {
    "parallelism pods": ('{phalanx.dev/gang: "true"}', "{parallelism: 4}", {"expected": 4, "min_member": 4}),
    "fewer of many": ('{phalanx.dev/min-member: "3"}', "{parallelism: 4}", {"expected": 4, "min_member": 3}),
    "its levels": (
        "{phalanx.dev/required: block, phalanx.dev/preferred: rack, phalanx.dev/topology: datacenter}",
        "{parallelism: 2}",
        {"required": "block", "preferred": "rack", "topology": "datacenter"},
    ),
    "ranks and exact nodes where it is Indexed": (
        '{phalanx.dev/gang: "true"}',
        "{parallelism: 2, completions: 2, completionMode: Indexed}",
        {"exact_nodes": True},
    ),
    "no exact nodes where it is not": ('{phalanx.dev/gang: "true"}', "{parallelism: 2}", {"exact_nodes": False}),
    "a wait while it is suspended": (
        '{phalanx.dev/gang: "true"}',
        "{parallelism: 2, suspend: true}",
        {"members": (), "waiting_for": ("Job default/train to be resumed (it is suspended by spec.suspend)",)},
    ),
}


@pytest.mark.parametrize(("annotations", "spec", "expected"), GANGS.values(), ids=GANGS)
def test_the_gang_of_a_job_has(annotations: str, spec: str, expected: dict[str, object]) -> None:
    reading = reading_of(job(annotations, spec), DATACENTER)
    assert reading.faults == ()
    (gang,) = reading.gangs
    assert gang.key == GangKey("phalanx", "default", "train")
    assert str(gang.source) == "Job default/train"
    assert {name: getattr(gang, name) for name in expected} == expected


def test_members_of_a_job_stand_by_number() -> None:
    (gang,) = reading_of(job(spec="{parallelism: 11}")).gangs
    assert [each.pod.metadata.name for each in gang.members] == [f"train-{number}" for number in range(11)]
    assert gang.pod_sets == (PodSet("main", 11, 11),)


def test_a_job_in_an_automatic_namespace_prefers_the_node_in_the_topology_there_is() -> None:
    (gang,) = reading_of(job("{}"), DATACENTER, namespaces=AUTOMATIC).gangs
    assert (gang.required, gang.preferred, gang.expected) == (None, "kubernetes.io/hostname", 4)
    assert gang.topology == "datacenter"


def mirror(topology: str) -> str:
    """The Gang object that shows an automatic Job, planned in that topology."""
    return f"""
        apiVersion: phalanx.dev/v1alpha1
        kind: Gang
        metadata: {{name: train, annotations: {{phalanx.dev/mirrors: phalanx/default/train}}}}
        status: {{topology: {topology}}}
    """


def test_an_automatic_gang_keeps_the_topology_that_it_was_given_first() -> None:
    other = DATACENTER.replace("datacenter", "other")
    (gang,) = reading_of(job("{}"), DATACENTER, other, mirror("datacenter"), namespaces=AUTOMATIC).gangs
    assert (gang.topology, gang.waiting_for) == ("datacenter", ())


def test_an_automatic_gang_waits_for_its_topology_where_that_was_deleted() -> None:
    other = DATACENTER.replace("datacenter", "other")
    (gang,) = reading_of(job("{}"), other, mirror("datacenter"), namespaces=AUTOMATIC).gangs
    assert (gang.topology, gang.waiting_for) == ("datacenter", ("Topology datacenter",))


def test_the_pods_of_a_job_find_it_by_their_owner_whatever_its_name_is_made_of() -> None:
    grown, _ = expanded(sources(job().replace("name: train", "generateName: train-")))
    assert {str(dialect_of(each)[1]) for each in grown.pods} == {"default/train-"}  # type: ignore[index]


def test_near_its_end_a_job_is_a_smaller_gang() -> None:
    text = job(spec="{parallelism: 4, completions: 8}", status="{succeeded: 6}")
    (gang,) = reading_of(text).gangs
    assert (gang.expected, gang.min_member, len(gang.members)) == (2, 2, 2)


def test_pods_that_have_succeeded_are_not_missing_while_their_job_has_not_counted_them() -> None:
    """The Job removes its finalizer from a pod when it has counted the pod in its status."""
    grown, _ = expanded(sources(job("{phalanx.dev/gang: 'true'}")))
    ended = msgspec.structs.replace(grown.pods[0], status=PodStatus(phase="Succeeded"))
    metadata = msgspec.structs.replace(ended.metadata, finalizers=(TRACKING,))
    tracked = msgspec.structs.replace(ended, metadata=metadata)
    for pod, succeeded in ((tracked, 1), (ended, 0)):
        (gang,) = read_all(replace(grown, pods=(pod, *grown.pods[1:]))).gangs
        assert (len(gang.members), gang.succeeded, gang.suffice(gang.members)) == (3, succeeded, succeeded == 1)


@pytest.mark.parametrize(
    ("spec", "status", "delay"),
    [
        ("{}", "{}", None),
        ("{}", "{startTime: now, active: 4}", None),
        ("{}", "{startTime: now, active: 0}", CreationDelay.BACK_OFF),
        ("{}", "{startTime: now, active: 3, failed: 1}", CreationDelay.BACK_OFF),
        ("{}", "{startTime: now, active: 3}", None),
        ("{suspend: true}", "{startTime: now, active: 0}", None),
        ("{podReplacementPolicy: Failed}", "{startTime: now, terminating: 4}", CreationDelay.TERMINATING),
        ("{podReplacementPolicy: TerminatingOrFailed}", "{startTime: now, active: 4, terminating: 4}", None),
    ],
)
def test_the_status_of_a_job_shows_why_its_pods_are_missing(
    spec: str, status: str, delay: CreationDelay | None
) -> None:
    parallel = "{parallelism: 4, " + spec[1:]
    (gang,) = reading_of(job(spec=parallel, status=status)).gangs
    assert gang.delay is delay


def test_a_gang_says_that_its_job_creates_pods_after_a_back_off() -> None:
    grown, _ = expanded(sources(job(status="{startTime: now}")))
    (gang,) = read_all(replace(grown, pods=grown.pods[:1])).gangs
    assert str(waiting_line(gang, None)) == (
        "waits for 3 more pods: 1 of 4 exist; Job default/train creates them after a back-off of up to 10 minutes if "
        "pods of it failed or were evicted"
    )


def test_a_gang_whose_evicted_pods_are_recreated_says_when() -> None:
    """The Gang's condition Complete says it, and so does the line "members" of `phalanx why`."""
    grown, _ = expanded(sources(job(status="{startTime: now}")))
    (gang,) = read_all(grown).gangs
    members = [each.pod for each in gang.members]
    seats = [
        msgspec.structs.replace(
            pod, metadata=msgspec.structs.replace(pod.metadata, uid=seat_uid("job", "main", pod.metadata.name))
        )
        for pod in members
    ]
    expected = tuple(replace(each, pod=pod) for each, pod in zip(gang.members, seats, strict=True))
    lost = replace(gang, members=expected, made_again=frozenset(pod.metadata.uid for pod in seats))
    status = gang_status(lost, Phase.UNPLACEABLE, now="2026-11-21T12:00:00Z")
    (complete,) = (each for each in status["conditions"] if each["type"] == "Complete")
    then = "Job default/train creates them after a back-off of up to 10 minutes if pods of it failed or were evicted"
    assert complete["message"] == f"0 pods of 4 exist, the others are recreated; {then}"
    manifest = {"metadata": {"name": "train", "namespace": "default"}, "status": status}
    assert presence(GangFacts(manifest)) == f"0 of 4 exist, 0 bound; {then}"


def test_a_finished_job_is_no_gang() -> None:
    text = job(status='{conditions: [{type: Complete, status: "True"}]}')
    assert reading_of(text).gangs == ()


def test_pods_that_are_seen_before_their_job_wait_for_it() -> None:
    grown, _ = expanded(sources(job()))
    (gang,) = read_all(Sources(pods=grown.pods)).gangs
    assert gang.waiting_for == ("Job default/train",)
    assert len(gang.members) == 4


def test_a_job_that_was_admitted_without_us_is_no_gang_and_says_so() -> None:
    reading = read_all(sources(job()))
    assert reading.gangs == ()
    assert [str(each) for each in reading.advice] == [
        (
            "Job default/train: metadata.annotations: came too late: the Job was made without it or without Phalanx; "
            "delete it and create it again"
        )
    ]


def test_expanding_leaves_jobs_of_no_gang_alone() -> None:
    grown, _ = expanded(sources(job("{}")))
    assert grown.pods == []


def test_expanding_makes_the_pods_of_other_dialects_gangs_too() -> None:
    grown, _ = expanded(sources(job("{}", template="{pod-group.scheduling.sigs.k8s.io: g}")))
    assert len(grown.pods) == 4


def test_expanding_names_a_malformed_job_and_goes_on() -> None:
    broken: Any = job(spec="{parallelism: many}").replace("name: train", "name: broken")
    grown, faults = expanded(sources(broken, job()))
    assert [str(each.object) for each in faults] == ["Job default/broken"]
    assert len(grown.pods) == 4
