"""Expected pods and the ResourceQuotas of their namespace: a table of quotas and the messages for a gang."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from cluster import resource_quota_charges
from cluster.capturing import snapshot_of
from cluster.node_state import NodeState, Tenant
from cluster.snapshot import Snapshot
from controller.acting.placeholders import placeholder_manifest
from gangs.assembling import GangWorkload, assemble, of_one_set
from gangs.model import Gang, GangKey, Member, ObjectRef
from kube.keys import GATE, PLAN, PLANNED_NODE, SYSTEM_NAMESPACE
from kube.objects import (
    Container,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    PriorityClass,
    ResourceQuota,
    ResourceRequirements,
    SchedulingGate,
)
from kube.placeholders import HELD_FOR, PLACEHOLDER, SEAT, seat_uid
from kube.requests import pod_requests
from planning.decision import Outcome
from planning.planner import plan_gang
from planning.scheduler_rules.resource_quotas import ChargedTogether, quotas_in_the_way

TWO = "ResourceQuota q to have room for 2 more pods"


def pod(name: str, uid: str, **spec: Any) -> Pod:
    """A pod of 2 cpu, at most 3, and a GPU, of priority class high."""
    resources = ResourceRequirements(requests={"cpu": "2", "gpu.io/a": "1"}, limits={"cpu": "3", "gpu.io/a": "1"})
    whole = PodSpec(containers=(Container(name="c", resources=resources),), priority_class_name="high", **spec)
    return Pod(metadata=ObjectMeta(name=name, namespace="ns", uid=uid), spec=whole)


def gang(*, existing: int = 1, coming: int = 2) -> Gang:
    """Return a gang of existing pods and expected pods."""
    pods = [pod(f"p-{index}", f"uid-{index}") for index in range(existing)]
    pods += [pod(f"p-{index}", seat_uid("w", "main", f"p-{index}")) for index in range(existing, existing + coming)]
    ref, size = ObjectRef("apps/v1", "StatefulSet", "ns", "w"), existing + coming
    members = tuple(Member(each, "main", None) for each in pods)
    sets = of_one_set(members, "main", size, size)
    return assemble(GangKey("phalanx", "ns", "w"), GangWorkload(ref, members, sets, size, ""))


def quota(hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> ResourceQuota:
    """A quota of the namespace."""
    written = {
        "metadata": {"name": "q", "namespace": "ns"},
        "spec": {"hard": hard, **spec},
        "status": {"used": used or {}},
    }
    return msgspec.convert(written, ResourceQuota)


def scope(name: str, operator: str = "Exists", *values: str) -> dict[str, Any]:
    """A selector of one scope."""
    return {"scopeSelector": {"matchExpressions": [{"scopeName": name, "operator": operator, "values": values}]}}


HIGH = PriorityClass(metadata=ObjectMeta(name="high"), value=1)
TOO_FEW = {"pods": "1"}


@pytest.mark.parametrize(
    ("quotas", "told"),
    [
        ([], []),
        ([quota({"pods": "3"}, {"pods": "1"})], []),
        ([quota({"pods": "2"}, {"pods": "1"})], [f"{TWO} (pods: 2 needed, 1 of 2 left)"]),
        ([quota({"count/pods": "2"}, {"count/pods": "3"})], [f"{TWO} (count/pods: 2 needed, 0 of 2 left)"]),
        ([quota({"cpu": "6"}, {"cpu": "2"})], []),
        ([quota({"cpu": "5500m"}, {"cpu": "2"})], [f"{TWO} (cpu: 4 needed, 3500m of 5500m left)"]),
        ([quota({"requests.cpu": "3"})], [f"{TWO} (requests.cpu: 4 needed, 1 of 3 left)"]),
        ([quota({"limits.cpu": "5"})], [f"{TWO} (limits.cpu: 6 needed, 2 of 5 left)"]),
        ([quota({"requests.gpu.io/a": "1"})], [f"{TWO} (requests.gpu.io/a: 2 needed, 0 of 1 left)"]),
        ([quota({"memory": "1", "configmaps": "0", "services": "0"})], []),
        ([quota(TOO_FEW, **scope("PriorityClass", "In", "high"))], [f"{TWO} (pods: 2 needed, 0 of 1 left)"]),
        ([quota(TOO_FEW, **scope("PriorityClass", "In", "low"))], []),
        ([quota(TOO_FEW, **scope("PriorityClass", "NotIn", "high"))], []),
        ([quota(TOO_FEW, **scope("PriorityClass"))], [f"{TWO} (pods: 2 needed, 0 of 1 left)"]),
        ([quota(TOO_FEW, **scope("PriorityClass", "DoesNotExist"))], []),
        ([quota(TOO_FEW, scopes=["BestEffort"])], []),
        ([quota(TOO_FEW, scopes=["NotBestEffort", "NotTerminating"])], [f"{TWO} (pods: 2 needed, 0 of 1 left)"]),
        ([quota(TOO_FEW, scopes=["Terminating"])], []),
        ([quota(TOO_FEW, scopes=["OfAnotherYear"])], []),
    ],
)
def test_which_quotas_are_in_the_way(quotas: list[ResourceQuota], told: list[str]) -> None:
    assert list(quotas_in_the_way(gang(), snapshot_of([], [], quotas=quotas))) == told


def test_who_exists_is_charged_already_and_other_namespaces_do_not_matter() -> None:
    full = quota({"pods": "3"}, {"pods": "3"})
    assert not list(quotas_in_the_way(gang(existing=3, coming=0), snapshot_of([], [], quotas=[full])))
    elsewhere = msgspec.structs.replace(full, metadata=ObjectMeta(name="q", namespace="other"))
    assert not list(quotas_in_the_way(gang(), snapshot_of([], [], quotas=[elsewhere])))


def test_a_quota_of_which_nothing_is_counted_yet_is_charged_for_the_pods_that_are_there() -> None:
    there = snapshot_of([], [], quotas=[quota({"pods": "2"})])
    assert list(quotas_in_the_way(gang(), there)) == [f"{TWO} (pods: 2 needed, 1 of 2 left)"]


def holding(number: int, namespace: str = "ns", other: str = "other") -> Pod:
    """A placeholder for a pod of another gang."""
    made = pod(f"placeholder-{number}", f"uid-placeholder-{number}", node_name="")
    marks = {
        HELD_FOR: f"{namespace}/{other}-{number}",
        SEAT: seat_uid(other, "main", f"{other}-{number}"),
        PLAN: "p",
        PLANNED_NODE: "n",
    }
    meta = ObjectMeta(
        name=f"placeholder-{number}",
        namespace=SYSTEM_NAMESPACE,
        uid=f"uid-placeholder-{number}",
        labels={PLACEHOLDER: "true"},
        annotations=marks,
    )
    gated = msgspec.structs.replace(made.spec, scheduling_gates=(SchedulingGate(name=GATE),))
    return msgspec.structs.replace(made, metadata=meta, spec=gated, status=PodStatus(nominated_node_name="n"))


def made_by_us(number: int, *, ungated: bool = False) -> Pod:
    """The placeholder that `holding` describes, as the controller writes it and the API server returns it."""
    seat = pod(f"other-{number}", seat_uid("other", "main", f"other-{number}"))
    manifest = placeholder_manifest(GangKey("phalanx", "ns", "other"), seat, ungated=ungated)
    manifest["metadata"] |= {"namespace": SYSTEM_NAMESPACE, "uid": f"uid-{number}"}
    manifest["metadata"]["annotations"] |= {PLAN: "p", PLANNED_NODE: "n"}
    return msgspec.convert({**manifest, "status": {"nominatedNodeName": "n"}}, Pod)


def beside(*pods: Pod, hard: str = "6", used: str = "2", of: str = "pods") -> Snapshot:
    """Return a snapshot of one node with these pods, and one quota of the resource `of`."""
    meta = ObjectMeta(name="n", labels={"kubernetes.io/hostname": "n"})
    node = Node(metadata=meta, status=NodeStatus(allocatable={"cpu": "80", "gpu.io/a": "80", "pods": "90"}))
    return snapshot_of([node], pods, gate=GATE, quotas=[quota({of: hard}, {of: used})])


@pytest.mark.parametrize(
    ("of", "hard", "used", "told"),
    [
        ("limits.cpu", "15", "3", []),
        ("limits.cpu", "14", "3", [f"{TWO} (limits.cpu: 6 needed, 5 of 14 left)"]),
        ("limits.cpu", "18", "6", []),
        ("requests.cpu", "10", "2", []),
        ("requests.cpu", "9", "2", [f"{TWO} (requests.cpu: 4 needed, 3 of 9 left)"]),
        ("limits.memory", "1", "1", []),
    ],
)
def test_what_is_held_for_others_is_charged_by_its_limits_too(of: str, hard: str, used: str, told: list[str]) -> None:
    held = [made_by_us(each) for each in range(2)]
    assert list(quotas_in_the_way(gang(), beside(*held, hard=hard, used=used, of=of))) == told


def test_what_is_held_for_other_gangs_of_the_namespace_is_charged() -> None:
    """Otherwise two gangs would reserve twice the quota, and three gangs three times the quota."""
    assert not list(quotas_in_the_way(gang(), beside(*map(holding, range(2)))))
    why = f"{TWO} (pods: 2 needed, 1 of 6 left)"
    assert list(quotas_in_the_way(gang(), beside(*map(holding, range(3))))) == [why]
    assert not list(quotas_in_the_way(gang(), beside(*(holding(each, "elsewhere") for each in range(3)))))
    own = [holding(each, other="p") for each in (1, 2)]
    assert not list(quotas_in_the_way(gang(), beside(*own, hard="3", used="1")))


@pytest.mark.parametrize("ungated", [False, True])
def test_placeholders_with_and_without_a_gate_are_charged_alike(*, ungated: bool) -> None:
    """A placeholder without a gate, as before Kubernetes 1.37, is no released pod."""
    held = [made_by_us(each, ungated=ungated) for each in range(3)]
    there = beside(*held)
    assert [tenant.reserved for state in there.nodes for tenant in state.tenants] == [True] * 3
    assert list(quotas_in_the_way(gang(), there)) == [f"{TWO} (pods: 2 needed, 1 of 6 left)"]


class CountedNode(NodeState):
    """A node that counts the reads of its reserved capacity."""

    looks = 0

    @property
    def held_for_later(self) -> tuple[Tenant, ...]:
        """The placeholders on the node that reserve capacity for expected pods."""
        CountedNode.looks += 1
        return super().held_for_later


def sized(made: Pod, cpu: int) -> Pod:
    """Return the pod with a unique request, so that it must be counted separately."""
    asking = Container(name="c", resources=ResourceRequirements(requests={"cpu": f"{cpu}m"}))
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, containers=(asking,)))


@pytest.mark.parametrize("gangs", [1, 40])
def test_however_many_gangs_ask_each_node_and_each_held_pod_is_looked_at_once(
    gangs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This work runs in the thread of the reconciles.

    A tenant's quotas must not cost time in the order of gangs times nodes, or of gangs times placeholders.
    """
    nodes, held = 50, 2 * gangs
    there = beside(*(sized(holding(each), each) for each in range(held)), hard="9999")
    (full,) = there.nodes
    empty = NodeState(full.node, full.allocatable)
    states = [CountedNode(each.node, each.allocatable, each.tenants) for each in (full, *[empty] * (nodes - 1))]
    there = replace(there, nodes=tuple(states))
    asked: list[Pod] = []

    def counted(pod: Pod) -> Mapping[str, int]:
        asked.append(pod)
        return pod_requests(pod)

    monkeypatch.setattr(resource_quota_charges, "pod_requests", counted)
    monkeypatch.setattr(CountedNode, "looks", 0)
    for index in range(gangs):
        own = [pod(f"other-{each}", seat_uid("w", "main", str(each))) for each in (2 * index, 2 * index + 1)]
        members = tuple(Member(each, "main", None) for each in own)
        asking = replace(gang(), key=GangKey("phalanx", "ns", str(index)), members=members)
        assert not list(quotas_in_the_way(asking, there))
    assert CountedNode.looks == nodes
    assert len(asked) <= 4 * gangs + held


def test_of_gangs_that_are_too_large_together_the_later_ones_are() -> None:
    first, second, third = (replace(gang(), key=GangKey("phalanx", "ns", name)) for name in "abc")
    small = replace(gang(existing=1, coming=1), key=GangKey("phalanx", "ns", "small"))

    def found(hard: str, *gangs: Gang) -> list[str]:
        together = ChargedTogether([quota({"pods": hard}, {"pods": "99"})])
        return [each.key.name for each in gangs if together.refusal(each)]

    assert found("9", first, second, third) == []
    assert found("8", first, second, third) == ["c"]
    assert found("5", first, second, small) == ["b"]
    assert found("2", first, second, small) == ["a", "b"]


def test_a_gang_waits_for_the_quota_and_goes_when_it_has_room() -> None:
    meta = ObjectMeta(name="n", labels={"kubernetes.io/hostname": "n"})
    node = Node(metadata=meta, status=NodeStatus(allocatable={"cpu": "8", "gpu.io/a": "8", "pods": "9"}))
    for hard, outcome in (("2", Outcome.WAITING), ("3", Outcome.PLACED)):
        there = snapshot_of([node], [], quotas=[quota({"pods": hard}, {"pods": "1"})], priority_classes=[HIGH])
        assert plan_gang(gang(), there, []).outcome is outcome
