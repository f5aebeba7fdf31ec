"""One annotation makes a gang of a workload, for every kind that can be a gang. The tests run for each kind."""

from copy import deepcopy
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from workload_operators import IN_TURN, ROWS, Object, Row, spark_application

from cli.main import group
from gangs.dialects.expanding import expanded
from gangs.dialects.reading import read_all
from gangs.dialects.reviewing import review
from gangs.dialects.templates import as_admitted
from gangs.manifests import key_of, pod_of
from gangs.model import Gang, ObjectRef, Reading
from gangs.sources import Sources
from gangs.workloads.kind_table import WORKLOADS
from kube.placeholders import role_of_seat, to_come

every_kind = pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)


def standing(manifest: Object, pods: list[Object] | None = None) -> Sources:
    """Return sources with the workload, as stored after admission, and these pods; without pods if none are given."""
    admitted: Any = as_admitted(manifest, Sources())
    return Sources([pod_of(each) for each in pods or ()], {key_of(admitted): admitted})


def admitted(row: Row, **annotations: str) -> Object:
    """Return the workload as it is stored after admission."""
    return dict(as_admitted(row.manifest(**annotations), Sources()))


def gang_of(reading: Reading) -> Gang:
    """The one gang of a reading without faults."""
    assert reading.faults == ()
    (gang,) = reading.gangs
    return gang


def counts(gang: Gang) -> dict[str, int]:
    """The pods that each set expects."""
    return {each.name: each.count for each in gang.pod_sets}


def said(row: Row, manifest: Object) -> list[str]:
    """Return the faults for which admission refuses a workload."""
    del row
    return [str(each) for each in review(manifest, Sources())[0]]


def put(manifest: Object, part: Any) -> Object:
    """Return a copy of the workload with more fields in its spec."""
    return {**manifest, "spec": {**manifest["spec"], **part}}


def test_every_kind_that_can_be_a_gang_has_its_row() -> None:
    able = {at for at, row in WORKLOADS.items() if row.by_annotation}
    rows = [*ROWS.values(), spark_application()]
    assert {(each.group, each.kind) for each in rows} == able - {("batch", "Job")}


@every_kind
def test_its_pods_are_one_gang_each_role_a_set(row: Row) -> None:
    manifest = admitted(row, gang="true", required="rack")
    gang = gang_of(read_all(standing(manifest, list(row.pods(manifest)))))
    assert (gang.key.name, gang.source.kind, gang.required) == (row.gang, row.kind, "rack")
    assert counts(gang) == dict(row.sets)
    assert [each.pod.metadata.name for each in gang.members] == list(row.names)
    assert (gang.expected, gang.min_member) == (4, 4)


@every_kind
def test_the_dry_run_makes_the_pods_that_its_operator_would(row: Row) -> None:
    sources, faults = expanded(Sources(objects={key_of(row.manifest(gang="true")): row.manifest(gang="true")}))
    assert faults == []
    gang = gang_of(read_all(sources))
    assert [each.pod.metadata.name for each in gang.members] == list(row.names)
    assert counts(gang) == dict(row.sets)
    manifest = admitted(row, gang="true")
    made = gang_of(read_all(standing(manifest, list(row.pods(manifest)))))
    assert [each.index for each in gang.members] == [each.index for each in made.members]


@every_kind
def test_a_gang_waits_until_all_its_pods_exist(row: Row) -> None:
    manifest = admitted(row, gang="true")
    pods = list(row.pods(manifest))
    gang = gang_of(read_all(standing(manifest, pods[:-1])))
    assert not gang.suffice(gang.members)
    whole = gang_of(read_all(standing(manifest, pods)))
    assert whole.suffice(whole.members)


@every_kind
def test_its_minimum_is_the_annotation_or_what_its_own_fields_say(row: Row) -> None:
    manifest = admitted(row, gang="true", min_member="2")
    pods = list(row.pods(manifest))
    assert gang_of(read_all(standing(manifest, pods))).min_member == 2
    own = put(admitted(row, gang="true"), row.minimum)
    gang = gang_of(read_all(standing(own, pods)))
    assert gang.min_member == (3 if row.minimum else 4)
    assert sum(each.min_count for each in gang.pod_sets) == gang.min_member
    both = put(manifest, row.minimum)
    assert gang_of(read_all(standing(both, pods))).min_member == 2


@every_kind
def test_a_minimum_that_it_cannot_have_is_refused(row: Row) -> None:
    at = f"{row.kind} default/w: metadata.annotations[phalanx.dev/min-member]: "
    assert said(row, row.manifest(gang="true", min_member="5")) == [
        f"{at}5 is more than the 4 pods that the {row.kind} runs; lower it to 4 or raise the replicas"
    ]
    assert said(row, row.manifest(gang="true", min_member="few")) == [
        f'{at}"few" is not a number from 1 up; correct it'
    ]


@every_kind
def test_pods_that_nobody_marked_are_no_gang_and_it_is_said_why(row: Row) -> None:
    manifest = row.manifest(gang="true")
    sources = Sources([pod_of(each) for each in row.pods(manifest)], {key_of(manifest): manifest})
    reading = read_all(sources)
    assert reading.gangs == ()
    (told,) = reading.advice
    assert told.text.startswith(f"came too late: the {row.kind} was made without it or without Phalanx")


@every_kind
def test_one_that_asks_for_nothing_is_left_alone(row: Row) -> None:
    for annotations in ({}, {"gang": "false", "required": "rack"}):
        manifest = row.manifest(**annotations)
        assert as_admitted(manifest, Sources()) == manifest
        assert review(manifest, Sources()) == ([], [])


@every_kind
def test_a_suspended_one_waits_to_be_resumed_and_one_that_has_ended_is_no_gang(row: Row) -> None:
    manifest = admitted(row, gang="true")
    if row.suspend:
        *way, last = row.suspend
        part: Any = {last: True}
        for step in reversed(way):
            part = {step: part}
        gang = gang_of(read_all(standing(put(manifest, part))))
        field = f"spec.{'.'.join(row.suspend)}"
        assert gang.waiting_for == (f"{row.kind} default/w to be resumed (it is suspended by {field})",)
    if row.ended:
        ended = {**manifest, "status": {"conditions": [{"type": row.ended, "status": "True"}]}}
        assert read_all(standing(ended)).gangs == ()


@every_kind
def test_pods_whose_workload_is_not_there_wait_for_it(row: Row) -> None:
    manifest = admitted(row, gang="true")
    reading = read_all(Sources([pod_of(each) for each in row.pods(manifest)]))
    gang = gang_of(reading)
    assert gang.waiting_for == (str(ObjectRef(row.api_version, row.kind, "default", "w")),)
    assert len(gang.members) == 4
    assert gang.shown_as == row.gang


@every_kind
def test_pods_of_one_that_had_its_name_before_are_none_of_its_members(row: Row) -> None:
    manifest = admitted(row, gang="true")
    pods, jobs = list(row.pods(manifest)), list(row.jobs(manifest)) if row.jobs else []
    there = standing({**manifest, "metadata": {**manifest["metadata"], "uid": "another"}}, pods)
    for each in (*jobs, *(row.makers(manifest) if row.makers else ())):
        there = there.having(each)
    untold = [each for each in pods if row.kind == "LeaderWorkerSet" and each["metadata"]["name"] != "w-0"]
    assert len(gang_of(read_all(there)).members) == len(untold)  # a Pod has workers made, and says no more
    for job in jobs:
        job["metadata"]["ownerReferences"][0]["uid"] = "another"
    of_jobs = [each for each in pods if each["metadata"]["ownerReferences"][0]["apiVersion"] == "batch/v1"]
    assert len(gang_of(read_all(there)).members) == len(of_jobs) + len(untold)


@every_kind
def test_two_gangs_of_one_name_are_told(row: Row) -> None:
    manifest = admitted(row, gang="true")
    job: Any = as_admitted(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": row.gang, "namespace": "default", "annotations": {"phalanx.dev/gang": "true"}},
            "spec": {"template": {"spec": {}}},
        },
        Sources(),
    )
    pods = list(row.pods(manifest))
    both = standing(manifest, pods).having(job)
    (fault,) = read_all(both).faults
    problem = f"Job default/{row.gang}, which is a gang, has the same name; rename one of the two"
    assert str(fault) == f"{row.kind} default/w: metadata.name: {problem}"
    metadata = {"name": row.gang, "namespace": "default"}
    own = {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": metadata}
    faults = read_all(standing(manifest, pods).having({**own, "spec": {"minMember": 1}})).faults
    assert any(f"Gang {row.gang} has the same name" in str(each) for each in faults)


@every_kind
def test_replicas_that_are_no_number_are_one_clear_fault(row: Row) -> None:
    found = [each for each in _wrong(row, "replicas", "four") if each]
    assert found
    assert all(len(each) == 1 and each[0].startswith(f"{row.kind} default/w: spec.") for each in found), found
    assert any(each and "less than 0" in each[0] for each in _wrong(row, "replicas", -1))


def _wrong(row: Row, key: str, value: Any) -> list[list[str]]:
    """Return the faults of the workload for each of its numeric fields named `key`, set to `value` one at a time."""
    answers = []
    for position in range(len(list(_numbers(row.manifest(), key)))):
        manifest = row.manifest(gang="true")
        list(_numbers(manifest, key))[position][key] = value
        answers.append(said(row, manifest))
    return answers


def _numbers(part: Any, key: str) -> Any:
    if isinstance(part, dict):
        if key in part:
            yield part
        for each in part.values():
            yield from _numbers(each, key)
    elif isinstance(part, list):
        for each in part:
            yield from _numbers(each, key)


@pytest.mark.parametrize("path", ["runPolicy.schedulingPolicy.minAvailable", "elasticPolicy.minReplicas"])
def test_a_minimum_in_a_field_of_the_kind_that_cannot_be_is_refused_there(path: str) -> None:
    outer, *inner, last = path.split(".")
    for value, most, text in (
        (9, 4 if inner else 3, "is more than the"),
        ("x", 0, "expected `int`"),
        (-1, 0, "less than"),
    ):
        part: Any = {last: value}
        for step in reversed(inner):
            part = {step: part}
        (fault,) = said(ROWS["PyTorchJob"], put(ROWS["PyTorchJob"].manifest(gang="true"), {outer: part}))
        assert fault.startswith(f"PyTorchJob default/w: spec.{path}: "), fault
        assert text in fault
        assert not most or f"lower it to {most}" in fault


@every_kind
def test_a_quantity_that_is_none_is_one_mistake_of_the_dry_run(row: Row) -> None:
    """The dry run checks the templates of all kinds, so an invalid quantity gives one error line and no traceback."""
    text = yaml.safe_dump(row.manifest(gang="true")).replace("cpu: '1'", "cpu: 1x", 1)
    answer = CliRunner().invoke(group, ["solve", "-f", "-"], input=text, catch_exceptions=False)
    (line,) = [each for each in answer.stderr.splitlines() if each.startswith("error: ")]
    assert f"{row.kind} default/w: spec." in line
    assert "template.spec.containers[0].resources.requests.cpu" in line.replace("Template.", "template.")
    assert answer.exit_code == 2


@pytest.mark.parametrize("kind", ["PyTorchJob", "JobSet"])
def test_more_pods_of_all_roles_together_than_can_be_looked_at_are_refused(kind: str) -> None:
    """The limit is for all roles together, because a workload may have any number of roles."""
    manifest = ROWS[kind].manifest(gang="true")
    for part in _numbers(manifest, "replicas"):
        part["replicas"] = 15_000 if kind == "PyTorchJob" else 7_500
    _, (fault,) = expanded(Sources(objects={key_of(manifest): manifest}))
    assert fault.problem == "30000 pods are more than can be planned ahead"
    assert fault.field.startswith("spec.")


def test_more_pod_sets_than_a_gang_object_can_show_are_refused() -> None:
    manifest = ROWS["JobSet"].manifest(gang="true")
    one = manifest["spec"]["replicatedJobs"][0]
    manifest["spec"]["replicatedJobs"] = [{**one, "name": f"job-{number}"} for number in range(64)]
    assert said(ROWS["JobSet"], manifest) == []
    manifest["spec"]["replicatedJobs"].append({**one, "name": "last"})
    (fault,) = said(ROWS["JobSet"], manifest)
    assert "has 65 pod templates, and a gang has at most 64 pod sets; make several workloads of it" in fault


def test_a_minimum_below_all_keeps_the_leader_and_lets_workers_come_later() -> None:
    gang = gang_of(read_all(standing(admitted(ROWS["PyTorchJob"], gang="true", min_member="2"))))
    assert {each.name: each.min_count for each in gang.pod_sets} == {"master": 1, "worker": 1}


@pytest.mark.parametrize("name", IN_TURN)
def test_of_one_that_makes_later_pods_when_earlier_ones_run_these_are_members_before_they_exist(name: str) -> None:
    kind, part, later = IN_TURN[name]
    assert said(ROWS[kind], put(ROWS[kind].manifest(gang="true"), part)) == []
    manifest = put(admitted(ROWS[kind], gang="true"), part)
    pods = list(ROWS[kind].pods(manifest))
    first = [each for each in pods if each["metadata"]["name"] not in later]
    gang = gang_of(read_all(standing(manifest, first)))
    coming = [member for member in gang.members if to_come(member.pod)]
    assert tuple(member.pod.metadata.name for member in coming) == later
    assert (len(gang.members), gang.expected, gang.min_member) == (4, 4, 4)
    assert all(member.pod.gated_by("phalanx.dev/gang") for member in coming)
    assert {member.pod_set for member in coming} == {role_of_seat(member.pod.metadata.uid) for member in coming}
    whole = gang_of(read_all(standing(manifest, pods)))
    assert not any(to_come(member.pod) for member in whole.members)
    assert [member.pod_set for member in whole.members] == [member.pod_set for member in gang.members]


@pytest.mark.parametrize("name", ["OrderedReady", "LeaderReady"])
def test_more_pods_to_come_than_room_is_held_for_are_refused(name: str) -> None:
    """A manifest costs its author nothing, but every reading of the gang reads each expected pod.

    Groups that are gangs of their own count one by one.
    """
    kind, part, _ = IN_TURN[name]
    manifest = put(ROWS[kind].manifest(gang="true"), part)
    spec = manifest["spec"]
    where, key, most = spec, "replicas", 2_048
    if kind == "LeaderWorkerSet":
        where, key, most = spec["leaderWorkerTemplate"], "size", 2_049  # its leader comes first
    where[key] = most + 1
    (fault,) = said(ROWS[kind], manifest)
    assert f".{key}: 2049 pods are more than can be planned ahead; ask for at most 2048" in fault
    where[key], spec["replicas"] = most, 2_048
    assert said(ROWS[kind], manifest) == []


def test_a_gang_that_is_scaled_stays_readable_while_what_is_to_come_is_not_too_much() -> None:
    """Admission does not review a scale, and a gang that cannot be read loses its reserved capacity."""
    manifest = put(admitted(ROWS["StatefulSet"], gang="true"), {"podManagementPolicy": "OrderedReady"})
    pods = list(ROWS["StatefulSet"].pods(manifest))
    manifest["spec"]["replicas"] = 2_048 + len(pods)
    gang = gang_of(read_all(standing(manifest, pods)))
    assert len(gang.members) == 2_048 + len(pods)
    assert len({id(each.pod.spec) for each in gang.to_come}) == 1, "what is the same for all is worked out once"
    manifest["spec"]["replicas"] += 1
    (fault,) = read_all(standing(manifest, pods)).faults
    assert fault.problem == "2053 pods are more than can be planned ahead"


def test_of_a_group_the_pods_of_other_groups_are_not_looked_at() -> None:
    manifest = put(admitted(ROWS["LeaderWorkerSet"], gang="true"), {"startupPolicy": "LeaderReady"})
    manifest["spec"]["replicas"] = 1_000_000
    leader = next(iter(ROWS["LeaderWorkerSet"].pods(manifest)))
    gang = gang_of(read_all(standing(manifest, [leader])))
    assert [member.pod.metadata.name for member in gang.members] == ["w-0", "w-0-1", "w-0-2", "w-0-3"]


def test_pods_that_are_made_at_once_are_waited_for() -> None:
    manifest = admitted(ROWS["MPIJob"], gang="true")
    manifest["spec"]["launcherCreationPolicy"] = "WaitForWorkersReady"
    *workers, _launcher = ROWS["MPIJob"].pods(manifest)
    gang = gang_of(read_all(standing(manifest, workers[:2])))
    assert [member.pod.metadata.name for member in gang.members] == ["w-launcher-0", "w-worker-0", "w-worker-1"]
    assert not read_all(standing(manifest, [])).gangs[0].members


def test_jobs_that_wait_for_others_or_whose_first_pod_is_bound_first_have_pods_to_come() -> None:
    manifest = admitted(ROWS["JobSet"], gang="true")
    driver, *nodes = ROWS["JobSet"].pods(manifest)
    waiting = deepcopy(manifest)
    waiting["spec"]["replicatedJobs"][1]["dependsOn"] = [{"name": "driver", "status": "Ready"}]
    coming = [each for each in gang_of(read_all(standing(waiting, [driver]))).members if to_come(each.pod)]
    assert {each.pod_set for each in coming} == {"nodes"}
    manifest["metadata"]["annotations"]["alpha.jobset.sigs.k8s.io/exclusive-topology"] = "rack"
    coming = [each for each in gang_of(read_all(standing(manifest, [driver, nodes[0]]))).members if to_come(each.pod)]
    assert [each.pod.metadata.name for each in coming] == ["w-nodes-0-1", "w-nodes-0-2"]


def test_pods_are_still_to_come_when_those_before_them_have_ended() -> None:
    """An initializer's pod ends before the training pods are created. These must stay expected pods of the gang."""
    manifest = admitted(ROWS["JobSet"], gang="true")
    manifest["spec"]["replicatedJobs"][1]["dependsOn"] = [{"name": "driver", "status": "Complete"}]
    driver, *_ = ROWS["JobSet"].pods(manifest)
    gang = gang_of(read_all(standing(manifest, [{**driver, "status": {"phase": "Succeeded"}}])))
    assert (len(gang.to_come), gang.succeeded, gang.still_needed) == (3, 1, 3)


def test_what_a_pod_to_come_asks_for_is_what_its_siblings_got_at_their_admission() -> None:
    manifest = admitted(ROWS["StatefulSet"], gang="true")
    manifest["spec"]["podManagementPolicy"] = "OrderedReady"
    first = next(iter(ROWS["StatefulSet"].pods(manifest)))
    first["spec"] |= {"priority": 7, "priorityClassName": "high"}
    first["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "3"}}
    gang = gang_of(read_all(standing(manifest, [first])))
    specs = [member.pod.spec for member in gang.members]
    assert gang.priority == 7
    assert {(spec.priority_class_name, spec.containers[0].resources.requests["cpu"]) for spec in specs} == {
        ("high", "3")
    }


def test_pods_of_a_launcher_or_a_child_job_that_have_ended_well_are_counted() -> None:
    """Their Jobs count the succeeded pods, too, but here the parent workload is the gang, not the Job."""
    for kind in ("MPIJob", "JobSet"):
        manifest = admitted(ROWS[kind], gang="true")
        pods = [dict(each) for each in ROWS[kind].pods(manifest)]
        pods[-1]["status"] = {"phase": "Succeeded"}
        gang = gang_of(read_all(standing(manifest, pods)))
        assert (len(gang.members), gang.succeeded, gang.still_needed) == (3, 1, 3)


RAY = {
    "as written": ({}, {}, 4, 4),
    "never fewer than the least": ({"replicas": 1}, {}, 3, 3),
    "never more than the most": ({"replicas": 9}, {}, 4, 4),
    "several hosts a replica": ({"numOfHosts": 2}, {}, 7, 7),
    "its autoscaler makes the rest later": ({"numOfHosts": 2}, {"enableInTreeAutoscaling": True}, 7, 5),
    "a suspended group": ({"suspend": True}, {}, 1, 1),
}


@pytest.mark.parametrize(("group_says", "spec_says", "expected", "minimum"), RAY.values(), ids=RAY)
def test_a_ray_cluster_has_as_many_workers_as_kuberay_makes(
    group_says: Object, spec_says: Object, expected: int, minimum: int
) -> None:
    manifest = put(admitted(ROWS["RayCluster"], gang="true"), spec_says)
    manifest["spec"]["workerGroupSpecs"][0] |= group_says
    gang = gang_of(read_all(standing(manifest)))
    assert (gang.expected, gang.min_member) == (expected, minimum)


def test_a_job_set_has_replicas_times_parallelism_pods_and_no_more_than_completions() -> None:
    manifest = admitted(ROWS["JobSet"], gang="true")
    nodes = manifest["spec"]["replicatedJobs"][1]
    nodes["replicas"] = 4
    nodes["template"]["spec"] |= {"parallelism": 5, "completions": 2}
    gang = gang_of(read_all(standing(manifest)))
    assert counts(gang) == {"driver": 1, "nodes": 8}
    made = gang_of(read_all(expanded(standing(manifest))[0]))
    assert [each.pod.metadata.name for each in made.members][-2:] == ["w-nodes-3-0", "w-nodes-3-1"]


def test_a_version_of_a_kind_that_nobody_knows_is_refused() -> None:
    manifest = {**ROWS["MPIJob"].manifest(gang="true"), "apiVersion": "kubeflow.org/v1alpha2"}
    (fault,) = said(ROWS["MPIJob"], manifest)
    assert "is not read in version v1alpha2 of MPIJob; write the version as v2beta1 or v1" in fault


def test_wishes_on_a_template_are_told_where_to_write_them() -> None:
    manifest = ROWS["PyTorchJob"].manifest()
    manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["metadata"] = {
        "annotations": {"phalanx.dev/required": "rack"}
    }
    faults, (told,) = review(manifest, Sources())
    assert faults == []
    assert str(told) == (
        "PyTorchJob default/w: spec.pytorchReplicaSpecs.Worker.template.metadata.annotations[phalanx.dev/required]: "
        "asks for nothing there: write it on the PyTorchJob itself"
    )


def test_one_without_a_pod_template_is_told_that_it_asks_for_nothing() -> None:
    """The message must not claim that the annotation came too late."""
    manifest: Any = {**ROWS["JobSet"].manifest(gang="true"), "spec": {}}
    (told,) = review(manifest, Sources())[1]
    assert told.text == "asks for nothing: the JobSet has no pod template"


def test_pods_to_come_are_the_same_spec_in_the_next_reading_unless_it_says_something_else() -> None:
    """A comparison of two readings with thousands of members then compares object identities only."""
    row = ROWS["StatefulSet"]
    manifest = put(admitted(row, gang="true"), {"podManagementPolicy": "OrderedReady"})

    def specs(pod: Object) -> list[Any]:
        return [each.pod.spec for each in gang_of(read_all(standing(manifest, [pod]))).to_come]

    first = next(row.pods(manifest))
    before, again = specs(first), specs(deepcopy(first))
    assert len({id(each) for each in (*before, *again)}) == 1
    first["spec"]["priority"] = 7
    other = specs(first)
    assert {each.priority for each in other} == {7}
    assert specs(first)[0] is other[0]
