"""PodGroups and CompositePodGroups of scheduling.k8s.io: what is written, and the gang that is read from it."""

from dataclasses import replace

import pytest
from written import DATACENTER, sources

from gangs.coexistence.ownership import systems_ceded_to
from gangs.dialects.claims import dialect_of, parts_of
from gangs.dialects.concerned import places_of, pods_about
from gangs.dialects.expanding import expanded
from gangs.dialects.reading import read_all
from gangs.dialects.table import DIALECTS
from gangs.model import Gang, GangKey, PodSet, TogetherRule
from gangs.native.units import grouped
from gangs.sources import Sources
from kube.scheduling_groups import release_group

OWN = "{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: %s}"
INSTALLED = OWN % "{name: zz-phalanx, namespace: ''}"
ADOPTED = OWN % "{name: zz-phalanx, namespace: '', annotations: {phalanx.dev/adopt: native}}"


def pod_group(name: str, minimum: int, *, level: str = "", parent: str = "", more: str = "") -> str:
    topology = f"schedulingConstraints: {{topology: [{{key: {level}}}]}}, " if level else ""
    above = f"parentCompositePodGroupName: {parent}, " if parent else ""
    return f"""
    apiVersion: scheduling.k8s.io/v1beta1
    kind: PodGroup
    metadata: {{name: {name}, creationTimestamp: "2026-01-01T00:00:00Z"}}
    spec: {{{above}{topology}{more}schedulingPolicy: {{gang: {{minCount: {minimum}}}}}}}
    """


def composite(name: str, minimum: int, *, level: str = "", parent: str = "") -> str:
    return (
        pod_group(name, minimum, level=level, parent=parent)
        .replace("minCount", "minGroupCount")
        .replace("kind: PodGroup", "kind: CompositePodGroup")
    )


def pods(group: str, count: int) -> tuple[str, ...]:
    return tuple(
        f"""
        apiVersion: v1
        kind: Pod
        metadata: {{name: {group}-{number}}}
        spec: {{schedulingGroup: {{podGroupName: {group}}}, containers: [{{name: main, image: pause}}]}}
        """
        for number in range(count)
    )


def gangs_of(*texts: str) -> tuple[Gang, ...]:
    reading = read_all(expanded(sources(*texts))[0])
    assert reading.faults == ()
    return reading.gangs


def test_a_pod_group_is_a_gang_of_the_pods_that_name_it() -> None:
    (gang,) = gangs_of(DATACENTER, pod_group("train", 3, level="example.com/rack"), *pods("train", 4))
    assert gang.key == GangKey("native", "default", "train")
    assert str(gang.source) == "PodGroup default/train"
    assert (gang.min_member, gang.expected, gang.pod_sets) == (3, 4, (PodSet("main", 4, 3),))
    assert (gang.topology, gang.required) == ("datacenter", "example.com/rack")
    assert [member.pod.metadata.name for member in gang.members] == [f"train-{number}" for number in range(4)]
    assert (gang.created, gang.waiting_for, gang.all_or_none) == ("2026-01-01T00:00:00Z", (), True)


def test_a_jobs_template_names_the_group_of_its_pods() -> None:
    job = """
    apiVersion: batch/v1
    kind: Job
    metadata: {name: train}
    spec:
      parallelism: 3
      template:
        spec: {schedulingGroup: {podGroupName: train}, containers: [{name: main, image: pause}]}
    """
    (gang,) = gangs_of(pod_group("train", 2), job)
    assert (gang.min_member, len(gang.members), gang.required) == (2, 3, None)


JOB = """
    apiVersion: batch/v1
    kind: Job
    metadata: {name: train}
    spec:
      parallelism: 3
      scheduling: %s
      template: {spec: {containers: [{name: main, image: pause}]}}
"""


@pytest.mark.parametrize(
    ("scheduling", "minimum", "required"),
    [
        ("{schedulingPolicy: {gang: {}}, schedulingConstraints: {topology: [{key: rack}]}}", 3, "rack"),
        ("{schedulingPolicy: {gang: {minCount: 2}}}", 2, None),
        ("{schedulingPolicy: {basic: {}}}", 1, None),
        ("{disruptionMode: {single: {}}}", 1, None),
    ],
)
def test_a_job_in_a_file_is_read_as_the_group_that_its_controller_would_make(
    scheduling: str, minimum: int, required: str | None
) -> None:
    (gang,) = gangs_of(DATACENTER, JOB % scheduling)
    assert gang.key == GangKey("native", "default", "train")
    assert (gang.min_member, len(gang.members), gang.required) == (minimum, 3, required)


def test_a_jobs_own_group_counts_before_what_it_asks_for() -> None:
    named = (JOB % "{schedulingPolicy: {gang: {}}}").replace(
        "{spec: {", "{spec: {schedulingGroup: {podGroupName: other}, "
    )
    (gang,) = gangs_of(pod_group("other", 2), named)
    assert (gang.key.name, gang.min_member) == ("other", 2)


def test_a_job_without_scheduling_is_no_gang() -> None:
    assert gangs_of(JOB % "null") == ()


def test_a_basic_group_promises_no_number() -> None:
    basic = pod_group("web", 1).replace("gang: {minCount: 1}", "basic: {}")
    (gang,) = gangs_of(basic, *pods("web", 3))
    assert (gang.min_member, gang.expected, gang.all_or_none) == (1, 3, False)


def test_a_group_that_never_preempts() -> None:
    assert [each.preempts for each in gangs_of(pod_group("a", 1, more="preemptionPolicy: Never, "))] == [False]


def test_the_number_of_pods_is_not_known_before_they_exist() -> None:
    (gang,) = gangs_of(pod_group("train", 3))
    assert (gang.expected, gang.members, gang.suffice(gang.members)) == (3, (), False)


def test_pods_wait_for_their_group() -> None:
    (gang,) = gangs_of(*pods("train", 2))
    assert gang.waiting_for == ("PodGroup default/train",)


def test_groups_below_a_composite_are_one_gang() -> None:
    (gang,) = gangs_of(
        DATACENTER,
        composite("all", 2, level="example.com/block"),
        composite("workers", 2, level="example.com/rack", parent="all"),
        pod_group("a", 2, parent="workers"),
        pod_group("b", 1, parent="workers", level="kubernetes.io/hostname"),
        pod_group("head", 1, parent="all"),
        *pods("a", 2),
        *pods("b", 2),
        *pods("head", 1),
    )
    assert gang.key == GangKey("native", "default", "a")
    assert gang.names == {GangKey("native", "default", name) for name in ("a", "b", "head")}
    assert gang.pod_sets == (
        PodSet("a", 2, 2),
        PodSet("b", 2, 1, required="kubernetes.io/hostname"),
        PodSet("head", 1, 1),
    )
    assert (gang.min_member, gang.required) == (4, "example.com/block")
    assert gang.together == (TogetherRule(("a", "b"), "example.com/rack"),)
    assert parts_of(gang.key, [each.name for each in gang.pod_sets]) == gang.names


def test_a_composite_waits_for_its_groups_and_a_group_for_its_composite() -> None:
    (gang,) = gangs_of(composite("all", 3), pod_group("a", 1, parent="all"), pod_group("b", 1, parent="all"))
    assert gang.waiting_for == ("1 more group of CompositePodGroup default/all",)
    (gang,) = gangs_of(pod_group("a", 1, parent="all"))
    assert gang.waiting_for == ("CompositePodGroup default/all",)


def test_groups_below_a_basic_composite_are_gangs_of_their_own() -> None:
    basic = composite("all", 1).replace("gang: {minGroupCount: 1}", "basic: {}")
    gangs = gangs_of(basic, pod_group("a", 1, parent="all"), pod_group("b", 1, parent="all"))
    assert [(gang.key.name, gang.waiting_for) for gang in gangs] == [("a", ()), ("b", ())]


def test_composites_in_a_circle_are_refused() -> None:
    circle = composite("x", 1, parent="y"), composite("y", 1, parent="x"), pod_group("a", 1, parent="x")
    reading = read_all(sources(*circle))
    assert reading.gangs == ()
    assert [(str(each.object), each.field) for each in reading.faults] == [
        ("CompositePodGroup default/y", "spec.parentCompositePodGroupName")
    ]


@pytest.mark.parametrize("about", ["a", "b", "all", "inner"])
def test_a_review_reads_the_pods_of_all_groups_that_are_planned_together(about: str) -> None:
    written = sources(
        composite("all", 2),
        composite("inner", 1, parent="all"),
        pod_group("a", 1, parent="inner"),
        pod_group("b", 1, parent="all"),
        pod_group("other", 1),
        *pods("a", 1),
        *pods("b", 1),
        *pods("other", 1),
    )
    names = {key.name for key in grouped(GangKey("native", "default", about), written)}
    assert names - {"all", "inner"} == {"a", "b"}
    index = {place: [pod for pod in written.pods if place in places_of(pod)[0]] for place in _places(written)}
    kind = "PodGroup" if about in ("a", "b") else "CompositePodGroup"
    manifest = written.objects["scheduling.k8s.io", kind, "default", about]
    found = pods_about(manifest, written, lambda place: index.get(place, ()))
    assert [pod.metadata.name for pod in found] == ["a-0", "b-0"]


def _places(written: Sources) -> set[object]:
    return {place for pod in written.pods for place in places_of(pod)[0]}


def test_kube_scheduler_keeps_its_groups_where_phalanx_is_installed_and_nothing_adopts_them() -> None:
    files = sources(pod_group("train", 1), *pods("train", 1))
    cluster = sources(INSTALLED, pod_group("train", 1), *pods("train", 1))
    adopting = sources(ADOPTED, pod_group("train", 1), *pods("train", 1))
    assert [len(read_all(each).gangs) for each in (files, cluster, adopting)] == [1, 0, 1]
    (neighbour,) = systems_ceded_to(cluster).values()
    assert (neighbour.by_default, str(neighbour)) == (True, "kube-scheduler, which schedules groups of its own")


def test_to_adopt_every_system_does_not_adopt_the_schedulers_own_groups() -> None:
    """`all` was written before this dialect existed. It names systems beside Kubernetes."""
    everything = ADOPTED.replace("native", "all")
    assert list(systems_ceded_to(sources(everything))) == ["native"]


def test_a_pod_without_labels_is_claimed_by_its_group() -> None:
    (pod,) = sources(*pods("train", 1)).pods
    claim = dialect_of(pod)
    assert claim is not None
    assert claim[1] == GangKey("native", "default", "train")


def test_a_pod_that_asks_in_other_words_too_belongs_to_the_other_dialect() -> None:
    (pod,) = sources(pods("train", 1)[0].replace("name: train-0", "name: train-0, labels: {phalanx.dev/gang: g}")).pods
    claim = dialect_of(pod)
    assert claim is not None
    assert claim[1] == GangKey("phalanx", "default", "g")


def test_a_group_that_phalanx_created_asks_for_no_gang() -> None:
    name = release_group("phalanx", "default", "llm")
    written = sources(pod_group(name, 2), *pods(name, 2))
    assert read_all(written).gangs == ()
    (dialect,) = (each for each in DIALECTS if each.name == "native")
    assert dialect.read(written, (), GangKey("native", "default", name)).gangs == ()


def test_gangs_of_other_pods_are_not_read_where_one_is_asked_about() -> None:
    written = sources(pod_group("a", 1), pod_group("b", 1), *pods("a", 1), *pods("b", 1), *pods("c", 1))
    (dialect, key), _, _ = (dialect_of(pod) or (None, None) for pod in written.pods)
    assert dialect is not None
    reading = dialect.read(replace(written), (), key)
    assert [gang.key.name for gang in reading.gangs] == ["a"]
