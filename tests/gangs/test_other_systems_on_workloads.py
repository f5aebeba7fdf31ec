"""Other systems' keys on workloads of every kind: the gang that is asked for, or a refusal with what to do instead.

Rows are kinds, columns what KAI Scheduler, Run:ai, Koordinator and ACK let people write on a workload or its templates.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest
from test_child_workloads import KINDS, admitted, made
from test_queued_workloads import written
from test_runai import EXAMPLE
from workload_operators import ROWS, Object, Row
from written import sources

from gangs.dialects.expanding import expanded
from gangs.dialects.reading import read_all
from gangs.dialects.reviewing import review
from gangs.dialects.templates import as_admitted
from gangs.manifests import key_of, pod_of
from gangs.model import Gang
from gangs.sources import Sources

KEY = "kai.scheduler/"
PLACED = "topology-required-placement"
PLACE = {f"{KEY}topology": "network", f"{KEY}topology-required-placement": "rack"}
LEAST = {f"{KEY}batch-min-member": "3"}
TO_ITSELF = {"JobSet", "MPIJob", "LeaderWorkerSet"}
"""Kinds whose pods have several controllers."""
ONE_BY_ONE = {"Deployment", "ReplicaSet", "Job"}

every_kind = pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)

GROUPS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "kai": {"annotations": {"pod-group-name": "g"}},
    "koordinator": {
        "annotations": {
            "gang.scheduling.koordinator.sh/name": "g",
            "gang.scheduling.koordinator.sh/min-available": "4",
        }
    },
    "ack": {
        "labels": {
            "network-topology-job-name": "n",
            "pod-group.scheduling.sigs.k8s.io/name": "g",
            "pod-group.scheduling.sigs.k8s.io/min-available": "4",
        }
    },
}
"""By dialect: keys on pod templates that name a gang."""
NAMED: Mapping[str, Object] = {
    "kai": {"apiVersion": "scheduling.run.ai/v2", "kind": "PodGroup", "spec": {"minMember": 4}},
    "ack": {"apiVersion": "scheduling.alibabacloud.com/v1alpha1", "kind": "JobNetworkTopology", "spec": {}},
}


def around(*objects: Object) -> Sources:
    """The sources with Run:ai's topology and these objects."""
    found = sources(EXAMPLE)
    for each in objects:
        found = found.having(each)
    return found


def asking(row: Row, annotations: Mapping[str, str] = PLACE) -> Object:
    """Return a workload with these annotations on the workload itself."""
    manifest = row.manifest()
    manifest["metadata"]["annotations"] = dict(annotations)
    return manifest


def on_templates(row: Row, said: Mapping[str, Mapping[str, str]]) -> Object:
    """Return a workload whose pod templates all have these labels and annotations."""
    manifest = row.manifest()
    for template in written(manifest):
        metadata = template.setdefault("metadata", {})
        for place, texts in said.items():
            metadata[place] = {**(metadata.get(place) or {}), **texts}
    return manifest


def stored(manifest: Object) -> Any:
    """The workload as admission has it stored."""
    return as_admitted(manifest, Sources())


def faults(manifest: Object, *others: Object) -> list[str]:
    """Return the faults for which admission refuses the workload."""
    return [str(each) for each in review(manifest, around(*others))[0]]


def gang_of(row: Row, manifest: Object, missing: int = 0) -> Gang:
    """Return the gang of the pods that the operator creates, without the last `missing` pods."""
    pods = [pod_of(each) for each in row.pods(manifest)]
    jobs = row.jobs(manifest) if row.jobs else ()
    standing = around(manifest, *(stored(each) for each in jobs))
    reading = read_all(Sources(pods[: len(pods) - missing], standing.objects))
    assert reading.faults == ()
    (gang,) = reading.gangs
    return gang


@every_kind
def test_runais_annotations_on_a_workload_make_one_gang_of_it(row: Row) -> None:
    manifest = asking(row)
    assert faults(manifest) == []
    gang = gang_of(row, stored(manifest))
    assert (gang.key.dialect, gang.key.name, gang.required, gang.topology) == ("runai", row.gang, "rack", "network")
    assert {each.name: each.count for each in gang.pod_sets} == dict(row.sets)
    assert [each.pod.metadata.name for each in gang.members] == list(row.names)
    assert (gang.min_member, gang.source.kind) == (4, row.kind)
    waiting = gang_of(row, stored(manifest), missing=1)
    assert not waiting.suffice(waiting.members)
    assert stored(stored(manifest)) == stored(manifest)


@every_kind
def test_the_dry_run_plans_what_runais_annotations_ask_for(row: Row) -> None:
    (gang,) = read_all(expanded(around(asking(row)))[0]).gangs
    assert [each.pod.metadata.name for each in gang.members] == list(row.names)
    assert gang.required == "rack"


@every_kind
def test_the_minimum_is_the_annotation_or_what_the_kind_says(row: Row) -> None:
    gang = gang_of(row, stored(asking(row, PLACE | LEAST)))
    assert gang.min_member == 3
    own = stored(asking(row))
    own["spec"] |= row.minimum
    assert gang_of(row, own).min_member == (3 if row.minimum else 4)
    (fault,) = faults(asking(row, PLACE | {f"{KEY}batch-min-member": "5"}))
    assert f"{KEY}batch-min-member]: 5 is more than the 4 pods" in fault


@every_kind
def test_pods_that_come_before_their_workload_is_seen_wait_for_it(row: Row) -> None:
    pods = [pod_of(each) for each in row.pods(stored(asking(row)))]
    jobs = {key_of(each): each for each in map(stored, row.jobs(stored(asking(row))) if row.jobs else ())}
    reading = read_all(Sources(pods, jobs))
    assert reading.faults == ()
    (gang,) = reading.gangs
    assert gang.waiting_for == (f"{row.kind} default/w",)


@every_kind
def test_runais_annotations_on_the_templates_make_one_gang_or_are_sent_to_the_workload(row: Row) -> None:
    manifest = on_templates(row, {"annotations": PLACE})
    found = faults(manifest)
    if row.kind in TO_ITSELF:
        assert all(each.endswith(f"write it on the {row.kind} itself instead") for each in found), found
        assert found
        return
    if row.kind in ONE_BY_ONE:
        assert any(f"{KEY}batch-min-member]: is missing" in each for each in found), found
        return
    assert found == []
    gang = gang_of(row, stored(manifest))
    assert (gang.key.dialect, gang.min_member, gang.required, len(gang.members)) == ("runai", 4, "rack", 4)
    waiting = gang_of(row, stored(manifest), missing=1)
    assert not waiting.suffice(waiting.members)


@every_kind
def test_what_a_template_says_otherwise_is_refused(row: Row) -> None:
    manifest = asking(row)
    *_, last = written(manifest)
    key, other, said = ("topology", "other", "network") if row.kind == "RayCluster" else (PLACED, "zone", "rack")
    last["metadata"]["annotations"] = {f"{KEY}{key}": other}  # a group of a RayCluster has levels of its own
    (fault,) = faults(manifest)
    assert fault.endswith(
        f'"{other}" differs from "{said}" on the {row.kind}; write it on one of the two, or the same on both'
    )


@every_kind
@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ({"labels": {"phalanx.dev/gang": "g"}}, "names Gang g, but the {kind} asks to be a gang itself"),
        ({"annotations": {"pod-group-name": "g"}}, "names a PodGroup, but the {kind} asks to be a gang itself"),
    ],
)
def test_two_ways_of_asking_are_refused(row: Row, part: Mapping[str, Mapping[str, str]], problem: str) -> None:
    manifest = on_templates(row, part)
    manifest["metadata"]["annotations"] = dict(PLACE)
    assert any(problem.format(kind=row.kind) in each for each in faults(manifest)), faults(manifest)
    own = asking(row, {**PLACE, "phalanx.dev/required": "rack"})
    assert any("asks for the gang that annotations of kai.scheduler ask for" in each for each in faults(own))


def test_a_pool_on_the_workload_keeps_all_roles_to_it() -> None:
    row = ROWS["PyTorchJob"]
    manifest = asking(row)
    manifest["metadata"]["labels"] = {f"{KEY}node-pool": "gb200"}
    gang = gang_of(row, stored(manifest))
    assert gang.node_affinity is not None
    mixed = asking(row)
    *_, last = written(mixed)
    last["metadata"]["labels"] = {f"{KEY}node-pool": "gb200"}
    (fault,) = faults(mixed)
    assert fault.endswith(
        "is gb200, but missing at spec.pytorchReplicaSpecs.Master.template; "
        "label the PyTorchJob itself: a gang is in one node pool"
    )


def test_one_that_is_to_be_left_alone_is() -> None:
    row = ROWS["PyTorchJob"]
    manifest = asking(row, {**PLACE, f"{KEY}skip-podgrouper": "true"})
    assert stored(manifest) == manifest
    assert faults(manifest) == []


@every_kind
def test_one_that_was_made_before_is_told_that_it_came_too_late(row: Row) -> None:
    refused, told = review(asking(row), around(), exists=True)
    assert refused == []
    assert any("came too late" in str(each) for each in told)


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_handed_down_to_what_is_the_gang(kind: str) -> None:
    manifest = {
        "apiVersion": KINDS[kind].api_version,
        "kind": kind,
        "metadata": {"name": "w", "namespace": "default", "annotations": dict(PLACE)},
        "spec": KINDS[kind].spec(),
    }
    assert faults(manifest) == []
    child = made(kind, admitted(deepcopy(manifest)))
    (gang,) = read_all(around(child)).gangs
    assert (gang.key.dialect, gang.required, gang.source.kind) == ("runai", "rack", child["kind"])
    assert {each.name: each.count for each in gang.pod_sets} == KINDS[kind].sets
    planned = read_all(expanded(around(manifest))[0]).gangs
    assert [each.key.name for each in planned] == ([KINDS[kind].foreseen] if KINDS[kind].foreseen else [])


@every_kind
@pytest.mark.parametrize("dialect", GROUPS)
def test_a_gang_that_the_templates_name_has_all_its_pods(row: Row, dialect: str) -> None:
    name = "n" if dialect == "ack" else "g"
    others = [
        {**NAMED[each], "metadata": {"name": name, "namespace": "default"}} for each in (dialect,) if each in NAMED
    ]
    manifest = on_templates(row, GROUPS[dialect])
    assert faults(manifest, *others) == []
    pods = [pod_of(each) for each in row.pods(stored(manifest))]
    jobs = row.jobs(stored(manifest)) if row.jobs else ()
    reading = read_all(Sources(pods, around(stored(manifest), *others, *jobs).objects))
    assert reading.faults == ()
    (gang,) = reading.gangs
    assert (gang.key.dialect, gang.key.name, gang.min_member, len(gang.members)) == (dialect, "g", 4, 4)
    (planned,) = read_all(expanded(around(manifest, *others))[0]).gangs
    assert len(planned.members) == 4


@every_kind
def test_a_queue_of_kueue_beside_them_is_refused(row: Row) -> None:
    manifest = asking(row)
    manifest["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
    found = faults(manifest)
    assert found
    if row.kind not in ("LeaderWorkerSet", "ReplicaSet", "Job"):
        assert all(each.endswith("keep one of the two ways of asking") for each in found), found


@every_kind
def test_a_gang_that_a_template_names_besides_is_told_to_count_for_nothing(row: Row) -> None:
    manifest = on_templates(row, GROUPS["koordinator"])
    manifest["metadata"]["annotations"] = dict(PLACE)
    refused, told = review(manifest, around())
    assert refused == []
    text = f"names gang default/g in the words of koordinator, too, which count for nothing: the {row.kind} is a gang"
    assert any(text in str(each) for each in told)


@pytest.mark.parametrize(
    ("said", "dialect"), [(PLACE, "runai"), ({"phalanx.dev/required": "rack"}, "phalanx"), ({}, "")]
)
def test_what_an_app_wrapper_holds_may_ask_itself(said: Mapping[str, str], dialect: str) -> None:
    held = [{"template": asking(ROWS["PyTorchJob"], said)}]
    manifest = {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"components": held},
    }
    planned = read_all(expanded(around(manifest))[0]).gangs
    assert [(each.key.dialect, each.required, len(each.members)) for each in planned] == (
        [(dialect, "rack", 4)] if dialect else []
    )
    manifest["spec"] = {"components": held * 2}
    assert read_all(expanded(around(manifest))[0]).gangs == ()
