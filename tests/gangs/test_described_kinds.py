"""Phalanx reads a user-defined kind like the kinds of its table: each object of the kind carries the kind's row."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from workload_operators import NAME, Object, described, owned, template, training_run

from cli.main import group
from gangs.dialects.expanding import expanded
from gangs.dialects.reading import read_all
from gangs.dialects.reviewing import review
from gangs.dialects.table import all_kinds
from gangs.dialects.templates import as_admitted
from gangs.incremental.gang_store import GangStore
from gangs.manifests import key_of, pod_of
from gangs.model import Gang, GangKey
from gangs.sources import Sources
from gangs.workload_kinds import user_defined_rows
from gangs.workloads.kind_table import ROW, row_of
from gangs.workloads.pod_counts import beside
from gangs.workloads.user_defined_kinds import with_row

TRAINING_RUN = training_run()


def with_more(**more: Any) -> Object:
    """The WorkloadKind with other fields."""
    found = described()
    found["spec"] |= more
    return found


def among(manifest: Object, kind: Object, pods: list[Object] | None = None) -> Sources:
    """A workload, as it is once admitted, beside what describes its kind, and pods."""
    alone = Sources(objects={key_of(kind): kind})
    admitted: Any = as_admitted(with_row(manifest, user_defined_rows(alone)), alone)
    return Sources([pod_of(each) for each in pods or ()], {key_of(kind): kind, key_of(admitted): admitted})


def stored(manifest: Object, kind: Object) -> Object:
    """The workload as the API server has it."""
    found = among(manifest, kind).objects[key_of(manifest)]
    return {key: deepcopy(value) for key, value in found.items() if key != ROW}


def gang(sources: Sources) -> Gang:
    """Return the only gang of the sources, and check that the reading has no fault."""
    reading = read_all(sources)
    assert reading.faults == ()
    (found,) = reading.gangs
    return found


def counts(found: Gang) -> dict[str, int]:
    """The pods that each set expects."""
    return {each.name: each.count for each in found.pod_sets}


def test_its_pods_are_one_gang_each_role_a_set_in_order_of_rank() -> None:
    manifest = TRAINING_RUN.manifest(gang="true", required="rack")
    made = list(TRAINING_RUN.pods(stored(manifest, described())))
    found = gang(among(manifest, described(), made[::-1]))
    assert (found.key.name, found.source.kind, found.required) == (NAME, "TrainingRun", "rack")
    assert counts(found) == dict(TRAINING_RUN.sets)
    assert [each.pod.metadata.name for each in found.members] == list(TRAINING_RUN.names)
    assert [each.index for each in found.members] == [0, 0, 1, 2]
    assert (found.expected, found.min_member) == (4, 4)


def test_the_minimum_is_that_of_its_fields() -> None:
    manifest = TRAINING_RUN.manifest(gang="true")
    manifest["spec"] |= TRAINING_RUN.minimum
    made = list(TRAINING_RUN.pods(stored(manifest, described())))
    assert gang(among(manifest, described(), made)).min_member == 3
    manifest = TRAINING_RUN.manifest(gang="true")
    manifest["spec"]["roles"][1]["atLeast"] = 2
    found = gang(among(manifest, described(), made))
    assert {each.name: each.min_count for each in found.pod_sets} == {"chief": 1, "worker": 2}


def test_a_number_that_is_looked_for_beyond_the_end_of_a_list_is_not_written() -> None:
    manifest = {"kind": "TrainingRun", "metadata": {"name": "w"}, "spec": {"sizes": []}}
    assert beside(manifest, "spec.sizes.0", ()) == (["spec", "sizes", "0"], None)


def test_a_paused_one_waits_and_one_that_is_done_is_no_gang() -> None:
    manifest = TRAINING_RUN.manifest(gang="true")
    made = list(TRAINING_RUN.pods(stored(manifest, described())))
    paused = {**manifest, "spec": {**manifest["spec"], "paused": True}}
    assert gang(among(paused, described(), made)).waiting_for == (
        "TrainingRun default/w to be resumed (it is suspended by spec.paused)",
    )
    assert read_all(among({**manifest, "status": {"phase": "Done"}}, described())).gangs == ()


def test_pods_that_jobs_make_are_known_by_the_label_that_names_the_workload() -> None:
    kind = with_more(workloadLabel="ml.example.com/run")
    manifest = TRAINING_RUN.manifest(gang="true")
    made = list(TRAINING_RUN.pods(stored(manifest, kind)))
    for each in made:
        each["metadata"]["labels"]["ml.example.com/run"] = NAME
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": f"{NAME}-job"}}
        each["metadata"]["ownerReferences"] = [owned(job)]
    found = gang(among(manifest, kind, made))
    assert (found.key.name, len(found.members)) == (NAME, 4)
    assert {each.pod_set for each in found.members} == {"chief", "worker"}


def test_each_part_is_a_gang_where_the_kind_says_so() -> None:
    kind = with_more(gangs={"label": "ml.example.com/slice", "count": "spec.slices"})
    manifest = TRAINING_RUN.manifest(gang="true")
    manifest["spec"]["slices"] = 2
    sources, faults = expanded(among(manifest, kind))
    assert faults == []
    found = {each.key.name: counts(each) for each in read_all(sources).gangs}
    assert found == {"w-0": {"chief": 1, "worker": 3}, "w-1": {"chief": 1, "worker": 3}}


def test_room_is_held_for_pods_that_start_later() -> None:
    kind = with_more(
        podTemplates=[
            {"path": "spec.chief.pods"},
            {"path": "spec.workers.pods", "replicas": "spec.workers.count", "startsLater": True},
        ]
    )
    manifest = TRAINING_RUN.manifest(gang="true")
    manifest["spec"] = {"chief": {"pods": template()}, "workers": {"count": 3, "pods": template()}}
    parts = stored(manifest, kind)["spec"]
    pod = {"apiVersion": "v1", "kind": "Pod", **parts["chief"]["pods"]}
    pod["metadata"] |= {"name": "w-chief-0", "namespace": "default", "uid": "1", "ownerReferences": [owned(manifest)]}
    found = gang(among(manifest, kind, [pod]))
    assert counts(found) == {"chief": 1, "workers": 3}
    assert (len(found.members), len(found.to_come)) == (4, 3)


def test_a_workload_without_a_template_is_told_where_it_was_looked_for() -> None:
    manifest = TRAINING_RUN.manifest(gang="true")
    manifest["spec"] = {"parts": []}
    sources = among(manifest, described())
    (fault,) = review(sources.objects[key_of(manifest)], sources)[0]
    assert str(fault) == (
        "TrainingRun default/w: spec: has no pod template at spec.roles.*.pods; write one, or have the paths of "
        "WorkloadKind trainingruns.ml.example.com corrected"
    )


def test_a_kind_that_nobody_has_described_is_told_so() -> None:
    faults, advice = review(TRAINING_RUN.manifest(gang="true"), Sources())
    assert faults == []
    assert [each.field for each in advice] == ["metadata.annotations[phalanx.dev/gang]"]
    assert "TrainingRun of ml.example.com is no kind that Phalanx knows" in advice[0].text


def test_what_a_tenant_writes_in_the_place_of_a_row_is_none() -> None:
    assert row_of({**TRAINING_RUN.manifest(gang="true"), ROW: {"plural": "trainingruns"}}) is None


WRONG = {
    "another name": ({"resource": "runs"}, "metadata.name"),
    "a kind of the table": ({"group": "kubeflow.org", "kind": "TFJob", "resource": "tfjobs"}, "spec.kind"),
    "a group of Kubernetes": ({"group": "coordination.k8s.io"}, "spec.group"),
    "the core": ({"group": ""}, "spec.group"),
    "too long": ({"kind": "T" * 60}, "spec.kind"),
    "no kind": ({"kind": "training_run"}, "spec.kind"),
    "no version": ({"versions": []}, "spec.versions"),
    "no template": ({"podTemplates": []}, "spec.podTemplates"),
    "no path": ({"podTemplates": [{"path": "spec..pods"}]}, "spec.podTemplates[0].path"),
    "the path ends in *": ({"podTemplates": [{"path": "spec.roles.*"}]}, "spec.podTemplates[0].path"),
    "another *": (
        {"podTemplates": [{"path": "spec.a.*.pods", "replicas": "spec.b.*.count"}]},
        "spec.podTemplates[0].replicas",
    ),
    "two sets of a name": (
        {"podTemplates": [{"path": "spec.a.pods"}, {"path": "spec.b.a.pods"}]},
        "spec.podTemplates[0].path",
    ),
    "all later": ({"podTemplates": [{"path": "spec.pods", "startsLater": True}]}, "spec.podTemplates"),
    "a * in one field": ({"minMember": "spec.roles.*.count"}, "spec.minMember"),
    "no label": ({"rankKey": "a/b/c"}, "spec.rankKey"),
    "our own label": ({"rankKey": "phalanx.dev/index"}, "spec.rankKey"),
    "an empty label": ({"gangs": {"label": ""}}, "spec.gangs.label"),
    "an unknown field": ({"replicas": "spec.replicas"}, "spec.replicas"),
    "a wrong type": ({"versions": "v1"}, "spec.versions"),
}


@pytest.mark.parametrize(("more", "field"), WRONG.values(), ids=WRONG)
def test_a_wrong_one_gets_one_clear_error_and_describes_nothing(more: Object, field: str) -> None:
    wrong = with_more(**more)
    if field != "metadata.name":
        wrong["metadata"]["name"] = f"{wrong['spec']['resource']}.{wrong['spec']['group']}"
    faults, _ = review(wrong, Sources())
    assert field in {each.field for each in faults}
    assert all(each.problem and each.remedy for each in faults)
    assert user_defined_rows(Sources(objects={key_of(wrong): wrong})) == {}


def test_of_two_for_one_kind_the_older_counts_and_the_other_one_is_told() -> None:
    old, new = described(), with_more(resource="runs", minMember="")
    old["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    new["metadata"]["name"] = "runs.ml.example.com"
    both = Sources(objects={key_of(each): each for each in (old, new)})
    (row,) = user_defined_rows(both).values()
    assert row.user_defined_by == old["metadata"]["name"]
    (fault,) = review(new, both)[0]
    assert (
        fault.problem
        == "TrainingRun of ml.example.com is described by WorkloadKind trainingruns.ml.example.com already"
    )
    assert review(old, both)[0] == []


def test_what_is_kept_follows_what_is_described() -> None:
    manifest, kind = TRAINING_RUN.manifest(gang="true"), described()
    made = list(TRAINING_RUN.pods(stored(manifest, kind)))
    sources = among(manifest, kind, made)
    without = sources.changed({key_of(kind): None, key_of(manifest): None})
    kept = GangStore(without)
    key = GangKey("phalanx", "default", NAME)
    before = kept.gang(key)
    assert before is None or before.waiting_for
    kept.update(sources, {}, [key_of(kind), key_of(manifest)])
    assert kept.gang(key) == gang(sources)
    kept.update(without, {}, [key_of(kind), key_of(manifest)])
    assert kept.gang(key) == before


def test_workloads_that_ask_for_nothing_are_not_kept() -> None:
    (teaching,) = [each for each in all_kinds() if each.user_defined is not None]
    assert teaching.user_defined is not None
    (found,) = teaching.user_defined([described()])
    assert (found.group, found.versions, found.kind, found.plural) == (
        "ml.example.com",
        ("v1",),
        "TrainingRun",
        "trainingruns",
    )
    assert found.keeps is not None
    assert found.as_read is not None
    asking = stored(TRAINING_RUN.manifest(gang="true"), described())
    assert not found.keeps(found.as_read(TRAINING_RUN.manifest()))
    assert found.keeps(found.as_read({**asking, "metadata": {"name": NAME}}))
    assert not found.keeps({**asking, "metadata": {"name": NAME}})


def solved(tmp_path: Path, *objects: Object) -> str:
    """Return the output of `phalanx solve -f` for these objects and two nodes of 8 cpu."""
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"n{index}"},
            "status": {"allocatable": {"cpu": "8", "pods": "10"}},
        }
        for index in range(2)
    ]
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all([*objects, *nodes]))
    return CliRunner().invoke(group, ["solve", "-f", str(file)]).output


def test_solve_plans_it_where_the_workload_kind_stands_in_the_files(tmp_path: Path) -> None:
    manifest = TRAINING_RUN.manifest(gang="true")
    assert "4 pods fit" in solved(tmp_path, manifest, described())
    assert "is no kind that Phalanx knows" in solved(tmp_path, manifest)
    wrong = with_more(rankKey="a/b/c")
    assert "WorkloadKind trainingruns.ml.example.com: spec.rankKey" in solved(tmp_path, manifest, wrong)
