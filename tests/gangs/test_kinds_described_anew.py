"""If a WorkloadKind is changed or deleted while workloads of its kind exist, their pods keep their gang and set."""

from copy import deepcopy
from typing import Any

from workload_operators import NAME, Object, described, made, template, training_run

from controller.status.mirrors import mirror_of
from gangs.dialects.reading import read_all
from gangs.dialects.reviewing import review
from gangs.dialects.templates import as_admitted
from gangs.manifests import key_of, pod_of
from gangs.model import Gang, Reading
from gangs.sources import Sources
from gangs.workload_kinds import user_defined_rows
from gangs.workloads.kind_table import ROW
from gangs.workloads.user_defined_kinds import with_row

ONE = {"podTemplates": [{"path": "spec.pods", "replicas": "spec.count", "minReplicas": "spec.least"}]}
TWO = {"podTemplates": [*ONE["podTemplates"], {"path": "spec.helpers.pods", "replicas": "spec.helpers.count"}]}


def kind_of(**more: Any) -> Object:
    """The WorkloadKind with other fields."""
    found = described()
    found["spec"] |= more
    return found


def workload(*, helpers: int = 0) -> Object:
    """Return a workload that asks to be a gang, with three pods and `helpers` more pods of a second template."""
    manifest = training_run().manifest(gang="true")
    manifest["spec"] = {"count": 3, "least": 2, "pods": template()}
    if helpers:
        manifest["spec"]["helpers"] = {"count": helpers, "pods": template()}
    return manifest


def admitted(manifest: Object, kind: Object) -> Object:
    """Return the workload as it is stored after admission while the WorkloadKind is `kind`."""
    alone = Sources(objects={key_of(kind): kind})
    found = as_admitted(with_row(manifest, user_defined_rows(alone)), alone)
    return {key: deepcopy(value) for key, value in found.items() if key != ROW}


def pods_of(stored: Object, count: int = 3) -> list[Object]:
    """Return the pods that the operator creates for the workload."""
    return [made(stored, stored["spec"]["pods"], f"{NAME}-{index}", {}) for index in range(count)]


def read(stored: Object, kind: Object | None, pods: list[Object], *more: Object) -> Reading:
    """Return the reading of the workload, its WorkloadKind (None: there is none), its pods and more objects."""
    alone = Sources(objects={key_of(kind): kind}) if kind is not None else Sources()
    rows = user_defined_rows(alone)
    there = [with_row(stored, rows)] if rows else []  # the controller does not watch a kind without a WorkloadKind
    objects = [*there, *more, *([kind] if kind is not None else [])]
    return read_all(Sources([pod_of(each) for each in pods], {key_of(each): each for each in objects}))


def only(reading: Reading) -> Gang:
    """Return the only gang of the reading."""
    assert reading.faults == ()
    (found,) = reading.gangs
    return found


def test_pods_keep_their_set_when_a_second_template_is_described() -> None:
    stored = admitted(workload(), kind_of(**ONE))
    pods = pods_of(stored)
    found = only(read(stored, kind_of(**TWO), pods))
    assert {(each.pod.metadata.name, each.pod_set) for each in found.members} == {(f"w-{n}", "main") for n in range(3)}
    assert [(each.name, each.count) for each in found.pod_sets] == [("main", 3)]


def test_a_pod_of_a_set_that_is_no_more_is_told() -> None:
    stored = admitted(workload(), kind_of(**ONE))
    pods = pods_of(stored)
    pods[1]["metadata"]["labels"]["phalanx.dev/pod-set"] = "other"
    reading = read(stored, kind_of(**ONE), pods)
    (fault,) = reading.faults
    assert str(fault) == (
        'Pod default/w-1: metadata.labels[phalanx.dev/pod-set]: "other" is no pod set of TrainingRun default/w, which '
        "has main; correct the paths of WorkloadKind trainingruns.ml.example.com, or delete such pods, to be recreated"
    )


def mirror(stored: Object) -> tuple[Gang, Object]:
    """The gang of a workload that runs, one pod short of all, and the Gang object that shows it."""
    gang = only(read(stored, kind_of(**ONE), pods_of(stored, 2)))
    assert (gang.min_member, gang.expected) == (2, 3)
    found = mirror_of(gang, ("default", NAME))
    return gang, {**found, "status": {"mirrors": f"phalanx/default/{NAME}"}}


def test_without_what_describes_it_a_gang_keeps_its_minimum_and_says_what_it_lacks() -> None:
    stored = admitted(workload(), kind_of(**ONE))
    before, shown = mirror(stored)
    found = only(read(stored, None, pods_of(stored, 2), shown))
    assert (found.min_member, found.expected, found.pod_sets) == (2, 3, before.pod_sets)
    assert [each.pod_set for each in found.members] == ["main", "main"]
    assert found.waiting_for == ("a WorkloadKind that describes TrainingRun of ml.example.com",)
    assert mirror_of(found, ("default", NAME))["spec"] == shown["spec"]


def test_what_describes_it_and_is_not_in_force_is_waited_for() -> None:
    stored = admitted(workload(), kind_of(**ONE))
    _, shown = mirror(stored)
    wrong = kind_of(rankKey="a/b/c", **ONE)
    reading = read(stored, wrong, pods_of(stored, 2), shown)
    (found,) = reading.gangs
    assert found.waiting_for == ("WorkloadKind trainingruns.ml.example.com to be in force",)
    assert found.min_member == 2


def test_a_workload_whose_kind_nobody_describes_any_more_is_not_told_that_it_asks_for_nothing() -> None:
    stored = admitted(workload(), kind_of(**ONE))
    (advice,) = review(stored, Sources())[1]
    assert advice.text.startswith("is not read: nobody describes TrainingRun of ml.example.com any more")
