"""Pods that are to come, and the ResourceQuotas of their namespace: a table of quotas, and what a gang is told."""

from typing import Any

import msgspec
import pytest

from cluster.capturing import snapshot_of
from gangs.model import Gang, GangKey, Member, ObjectRef, PodSet
from kube.objects import (
    Container,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PriorityClass,
    ResourceQuota,
    ResourceRequirements,
)
from kube.placeholders import seat_uid
from planning.decision import Outcome
from planning.planner import plan_gang
from planning.scheduler_rules.resource_quotas import quotas_in_the_way

TWO = "ResourceQuota q to have room for 2 more pods"


def pod(name: str, uid: str, **spec: Any) -> Pod:
    """A pod of 2 cpu, at most 3, and a GPU, of priority class high."""
    resources = ResourceRequirements(requests={"cpu": "2", "gpu.io/a": "1"}, limits={"cpu": "3", "gpu.io/a": "1"})
    whole = PodSpec(containers=(Container(name="c", resources=resources),), priority_class_name="high", **spec)
    return Pod(metadata=ObjectMeta(name=name, namespace="ns", uid=uid), spec=whole)


def gang(*, existing: int = 1, coming: int = 2) -> Gang:
    """Some pods are there, others will be made."""
    pods = [pod(f"p-{index}", f"uid-{index}") for index in range(existing)]
    pods += [pod(f"p-{index}", seat_uid("w", "main", f"p-{index}")) for index in range(existing, existing + coming)]
    ref, size = ObjectRef("apps/v1", "StatefulSet", "ns", "w"), existing + coming
    members = tuple(Member(each, "main", None) for each in pods)
    return Gang(GangKey("phalanx", "ns", "w"), ref, members, (PodSet("main", size, size),), size, size)


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
        ([quota({"requests.cpu": "3"})], [f"{TWO} (requests.cpu: 4 needed, 3 of 3 left)"]),
        ([quota({"limits.cpu": "5"})], [f"{TWO} (limits.cpu: 6 needed, 5 of 5 left)"]),
        ([quota({"requests.gpu.io/a": "1"})], [f"{TWO} (requests.gpu.io/a: 2 needed, 1 of 1 left)"]),
        ([quota({"memory": "1", "configmaps": "0", "services": "0"})], []),
        ([quota(TOO_FEW, **scope("PriorityClass", "In", "high"))], [f"{TWO} (pods: 2 needed, 1 of 1 left)"]),
        ([quota(TOO_FEW, **scope("PriorityClass", "In", "low"))], []),
        ([quota(TOO_FEW, **scope("PriorityClass", "NotIn", "high"))], []),
        ([quota(TOO_FEW, **scope("PriorityClass"))], [f"{TWO} (pods: 2 needed, 1 of 1 left)"]),
        ([quota(TOO_FEW, **scope("PriorityClass", "DoesNotExist"))], []),
        ([quota(TOO_FEW, scopes=["BestEffort"])], []),
        ([quota(TOO_FEW, scopes=["NotBestEffort", "NotTerminating"])], [f"{TWO} (pods: 2 needed, 1 of 1 left)"]),
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


def test_a_gang_waits_for_the_quota_and_goes_when_it_has_room() -> None:
    meta = ObjectMeta(name="n", labels={"kubernetes.io/hostname": "n"})
    node = Node(metadata=meta, status=NodeStatus(allocatable={"cpu": "8", "gpu.io/a": "8", "pods": "9"}))
    for hard, outcome in (("2", Outcome.WAITING), ("3", Outcome.PLACED)):
        there = snapshot_of([node], [], quotas=[quota({"pods": hard}, {"pods": "1"})], priority_classes=[HIGH])
        assert plan_gang(gang(), there, []).outcome is outcome
