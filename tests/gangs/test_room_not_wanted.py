"""Workloads that create pods in order, and whose user disabled the reservation for later pods, in each possible way."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from node_manifests import node_manifest
from test_annotated_kinds import admitted, gang_of, put, said, standing
from workload_operators import IN_TURN, ROWS, Object, spark_application

from cli.main import group
from cluster.snapshot import Snapshot
from gangs.dialects.expanding import expanded
from gangs.dialects.reading import read_all
from gangs.manifests import key_of
from gangs.model import Gang
from gangs.sources import Sources
from gangs.workloads.later_pods.held_room import BY_SETTING, without_room
from kube.placeholders import to_come
from planning.planner import waiting

KEY = "phalanx.dev/placeholders"
JOBSETS = "alpha.jobset.sigs.k8s.io/exclusive-topology"
GROUPS = "leaderworkerset.sigs.k8s.io/exclusive-topology"
AFTER: dict[str, Any] = {"dependsOn": [{"name": "driver", "status": "Ready"}]}
WAYS: dict[str, tuple[str, str, dict[str, str], str, str]] = {
    "OrderedReady": (
        "StatefulSet",
        "OrderedReady",
        {},
        "3 more pods: 1 of 4 exist",
        "set spec.podManagementPolicy: Parallel",
    ),
    "LeaderReady": (
        "LeaderWorkerSet",
        "LeaderReady",
        {},
        "3 more pods of worker: 0 of 3 exist",
        "set spec.startupPolicy: LeaderCreated",
    ),
    "exclusive groups": (
        "LeaderWorkerSet",
        "",
        {GROUPS: "rack"},
        "3 more pods of worker: 0 of 3 exist",
        f"remove the annotation {GROUPS}",
    ),
    "WaitForWorkersReady": (
        "MPIJob",
        "WaitForWorkersReady",
        {},
        "1 more pod of launcher: 0 of 1 exist",
        "set spec.launcherCreationPolicy: AtStartup",
    ),
    "InOrder": (
        "JobSet",
        "InOrder",
        {},
        "3 more pods of nodes: 0 of 3 exist",
        "set spec.startupPolicy.startupPolicyOrder: AnyOrder",
    ),
    "dependsOn": ("JobSet", "", {}, "3 more pods of nodes: 0 of 3 exist", "leave out dependsOn"),
    "exclusive Jobs": (
        "JobSet",
        "",
        {JOBSETS: "rack"},
        "2 more pods of nodes: 1 of 3 exist",
        f"remove the annotation {JOBSETS}",
    ),
}
"""Kind, what its spec has of `IN_TURN`, annotations, the pods that are missing, and how all would be made at once."""
every_way = pytest.mark.parametrize("way", WAYS)


def asking(way: str, value: str = "false") -> Object:
    """The workload as its user writes it."""
    kind, policy, annotations, *_ = WAYS[way]
    manifest = ROWS[kind].manifest(gang="true", placeholders=value)
    manifest["metadata"]["annotations"] |= annotations
    if way == "dependsOn":
        manifest["spec"]["replicatedJobs"][1] |= AFTER
    return put(manifest, IN_TURN[policy][1]) if policy else manifest


def told(gang: Gang) -> str:
    """Return the message of a gang that waits; empty if the gang can be planned."""
    decision = waiting(gang, Snapshot(), ())
    return "" if decision is None else decision.message


def message(way: str, by: str, instead: str) -> str:
    """Return the expected message of a gang whose workload creates pods in order without reserved capacity."""
    kind, _, _, missing, at_once = WAYS[way]
    return (
        f"waits for {missing}; {kind} default/w creates pods only when others of it run, "
        "and no capacity is reserved for them, "
        f"{by}: {at_once}, so that all are made at once, or {instead}"
    )


def first_pods(way: str) -> Sources:
    """Return the workload and the pods that it creates before any of its pods runs."""
    manifest = asking(way)
    return expanded(Sources(objects={key_of(manifest): manifest}))[0]


@every_way
def test_its_gang_waits_and_says_how_many_are_missing_and_what_to_do(way: str) -> None:
    assert said(ROWS[WAYS[way][0]], asking(way)) == []
    gang = gang_of(read_all(first_pods(way)))
    assert not any(to_come(member.pod) for member in gang.counted)
    assert (gang.expected, gang.min_member) == (4, 4)
    assert told(gang) == message(way, f"as its annotation {KEY} says", "remove the annotation")


@every_way
def test_once_all_are_there_it_waits_for_nothing(way: str) -> None:
    kind = WAYS[way][0]
    manifest = asking(way)
    manifest = {**admitted(ROWS[kind], gang="true"), "metadata": manifest["metadata"]}
    gang = gang_of(read_all(standing(manifest, list(ROWS[kind].pods(manifest)))))
    assert told(gang) == ""


@every_way
def test_the_controller_may_hold_no_room_for_anybody(way: str) -> None:
    manifest = asking(way, "true")
    known = expanded(Sources(objects={key_of(manifest): manifest}))[0]
    held = gang_of(read_all(known))
    assert told(held) == ""
    first = {each.metadata.name for each in first_pods(way).pods}
    pods = [each for each in known.pods if each.metadata.name in first]
    gang = gang_of(read_all(Sources(pods, known.objects)))
    assert gang.to_come
    by, instead = "as the controller's --no-placeholders says", "have the controller run without it"
    assert told(without_room(gang, BY_SETTING)) == message(way, by, instead)
    unwanted = gang_of(read_all(first_pods(way)))
    assert without_room(unwanted, BY_SETTING) is unwanted
    at_once = gang_of(read_all(standing(admitted(ROWS["PyTorchJob"], gang="true"))))
    assert without_room(at_once, BY_SETTING) is at_once


def test_with_a_minimum_that_is_there_it_does_not_wait() -> None:
    manifest = asking("OrderedReady")
    manifest["metadata"]["annotations"]["phalanx.dev/min-member"] = "1"
    gang = gang_of(read_all(expanded(Sources(objects={key_of(manifest): manifest}))[0]))
    assert told(gang) == ""
    assert [each.pod.metadata.name for each in gang.members] == ["w-0"]


def test_a_kind_that_knows_no_other_way_is_told_to_have_room_held() -> None:
    manifest = spark_application().manifest(gang="true", placeholders="false")
    gang = gang_of(read_all(expanded(Sources(objects={key_of(manifest): manifest}))[0]))
    assert [each.pod.metadata.name for each in gang.counted] == ["w-driver"]
    assert told(gang).endswith(f"no capacity is reserved for them, as its annotation {KEY} says: remove the annotation")


OTHERS = {
    "ours": {"annotations": {"phalanx.dev/gang": "true"}},
    "Kueue's": {"labels": {"kueue.x-k8s.io/queue-name": "q"}},
    "Run:ai's": {"annotations": {"kai.scheduler/topology": "t", "kai.scheduler/topology-required-placement": "rack"}},
}


def of_system(system: str, value: str) -> Object:
    """An OrderedReady StatefulSet that is a gang by keys of this system."""
    manifest = asking("OrderedReady")
    metadata: Object = {"name": "w", "namespace": "default", **OTHERS[system]}
    metadata["annotations"] = {**metadata.get("annotations", {}), KEY: value}
    return {**manifest, "metadata": metadata}


@pytest.mark.parametrize("system", OTHERS)
def test_every_systems_gangs_have_the_annotation(system: str) -> None:
    manifest = of_system(system, "false")
    assert said(ROWS["StatefulSet"], manifest) == []
    gang = gang_of(read_all(expanded(Sources(objects={key_of(manifest): manifest}))[0]))
    assert len(gang.counted) == 1
    assert gang.later is not None
    assert gang.later.unwanted is not None
    wrong = of_system(system, "no")
    (fault,) = said(ROWS["StatefulSet"], wrong)
    assert fault == (
        f'StatefulSet default/w: metadata.annotations[{KEY}]: "no" is neither "true" nor "false"; write "false" to '
        "have no capacity reserved for pods that the workload creates later, or leave it out"
    )


def test_the_dry_run_says_the_same(tmp_path: Path) -> None:
    """The dry run gives the controller's message. Admission gives it as well: its forecast reads the same pods."""
    nodes = [node_manifest(f"n{number}", {}) for number in range(4)]
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all([*nodes, asking("LeaderReady")]))
    answer = CliRunner().invoke(group, ["solve", "-f", str(file), "-o", "json"])
    assert answer.exit_code == 3, answer.output
    (gang,) = yaml.safe_load(answer.stdout)["gangs"]
    told_there = message("LeaderReady", f"as its annotation {KEY} says", "remove the annotation")
    assert (gang["outcome"], gang["message"]) == ("Waiting", told_there)
