"""Gangs whose pods carry the gang's request themselves: which pod decides, and which pods must agree."""

from typing import Any

import pytest
from written import pod, sources

from gangs.dialects.reading import read_all
from gangs.kueue.keys import POD_GROUP, POD_GROUP_TOTAL
from gangs.model import Reading
from gangs.sources import Sources
from kube.objects import Pod

RACKS = """
    apiVersion: kai.scheduler/v1alpha1
    kind: Topology
    metadata: {name: network}
    spec: {levels: [{nodeLabel: example.com/block}, {nodeLabel: example.com/rack}]}
"""
KUEUE_RACKS = """
    apiVersion: kueue.x-k8s.io/v1beta1
    kind: Topology
    metadata: {name: network}
    spec: {levels: [{nodeLabel: example.com/block}, {nodeLabel: example.com/rack}]}
"""
PLACE, MINIMUM = "kai.scheduler/topology-required-placement", "kai.scheduler/batch-min-member"
QUEUED_PLACE = "kueue.x-k8s.io/podset-required-topology"
EIGHT, NINE, TEN = (f"2026-01-01T{hour:02}:00:00Z" for hour in (8, 9, 10))


def owner(uid: str, kind: str = "StatefulSet") -> dict[str, Any]:
    """A controller's reference; all have one name."""
    return {"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": uid, "controller": True}


def of_runai(name: str, created: str | None, place: str, minimum: str = "3", uid: str = "u1") -> Pod:
    """A pod of a StatefulSet with Run:ai's annotations."""
    return pod(name, created=created, annotations={PLACE: f"example.com/{place}", MINIMUM: minimum}, owner=owner(uid))


def of_kueue(name: str, created: str | None, place: str, total: str = "3", uid: str = "u1") -> Pod:
    """A pod of a Kueue pod group that a StatefulSet owns; without an owner if `uid` is empty."""
    annotations = {QUEUED_PLACE: f"example.com/{place}", POD_GROUP_TOTAL: total}
    made_by = owner(uid) if uid else None
    return pod(name, created=created, labels={POD_GROUP: "web"}, annotations=annotations, owner=made_by)


def reading(*pods: Pod) -> Reading:
    """Return the reading of these pods with topologies of racks and blocks, for Run:ai and for Kueue."""
    return read_all(Sources(pods, sources(RACKS, KUEUE_RACKS).objects))


a_dialect = pytest.mark.parametrize(
    ("member", "field"),
    [(of_runai, f"metadata.annotations[{PLACE}]"), (of_kueue, f"metadata.annotations[{QUEUED_PLACE}]")],
)


@a_dialect
def test_what_the_newest_pod_says_counts_and_nobody_is_refused(member: Any, field: str) -> None:
    """In a rolling update, web-1 is recreated with new annotations, while web-0 and web-2 have the old annotations."""
    found = reading(member("web-0", EIGHT, "rack"), member("web-1", TEN, "block"), member("web-2", NINE, "rack"))
    assert found.faults == ()
    (gang,) = found.gangs
    assert gang.required is not None
    assert gang.required.endswith("block")
    (told,) = (str(each) for each in found.advice if each.field == field)
    assert told == (
        f'Pod default/web-1: {field}: is "example.com/block", but is "example.com/rack" on Pod default/web-2: '
        "what the newest pod says counts for the whole gang"
    )


@a_dialect
def test_a_pod_that_only_arrives_is_the_newest(member: Any, field: str) -> None:
    found = reading(member("web-0", EIGHT, "rack"), member("web-1", None, "block"), member("web-2", NINE, "rack"))
    (gang,) = found.gangs
    assert (gang.required or "").endswith("block")
    assert [each.object.name for each in found.advice if each.field == field] == ["web-1"]


@a_dialect
def test_a_number_may_change_too(member: Any, field: str) -> None:
    del field
    found = reading(member("web-0", EIGHT, "rack"), member("web-1", TEN, "rack", "5"))
    assert found.faults == ()
    assert [(gang.min_member, gang.expected) for gang in found.gangs] == [(5, 5)]


@a_dialect
def test_wrong_words_of_the_newest_are_its_own_fault(member: Any, field: str) -> None:
    found = reading(member("web-0", EIGHT, "rack"), member("web-1", TEN, "moon"))
    assert found.gangs == ()
    assert {(each.object.name, each.field) for each in found.faults} == {("web-1", field)}


@a_dialect
def test_a_controller_made_anew_under_the_name_has_to_agree_with_pods_of_the_old_one(member: Any, field: str) -> None:
    found = reading(member("web-0", EIGHT, "rack"), member("web-1", TEN, "block", uid="u2"))
    assert found.gangs == ()
    assert [(each.object.name, each.field) for each in found.faults] == [("web-1", field)]


LIGHT = "pod-group.scheduling.sigs.k8s.io"
POLICY = "scheduling.run.ai/topology-policy"
SETTINGS = """
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: kai-scheduler-config, namespace: kai-scheduler}
    data:
      config.yaml: |
        topologyAwareScheduling:
          policies:
          - {name: near, topology: rack, strategy: pack}
          - {name: far, topology: zone, strategy: pack}
"""


def of_koordinator(name: str, created: str, number: str, uid: str = "u1") -> Pod:
    """A pod of a Koordinator gang without a PodGroup, defined by annotations."""
    annotations = {"gang.scheduling.koordinator.sh/name": "web", "gang.scheduling.koordinator.sh/min-available": number}
    return pod(name, created=created, annotations=annotations, owner=owner(uid))


def of_light(name: str, created: str, number: str, uid: str = "u1") -> Pod:
    """A pod of a Koordinator gang without a PodGroup, defined by the labels of lightweight coscheduling."""
    labels = {f"{LIGHT}/name": "web", f"{LIGHT}/min-available": number}
    return pod(name, created=created, labels=labels, owner=owner(uid))


def of_ack(name: str, created: str, number: str, uid: str = "u1") -> Pod:
    """A pod of a gang without a PodGroup, defined by labels, that also names a JobNetworkTopology."""
    labels = {f"{LIGHT}/name": "web", f"{LIGHT}/min-available": number, "network-topology-job-name": "web"}
    return pod(name, created=created, labels=labels, owner=owner(uid))


@pytest.mark.parametrize("member", [of_koordinator, of_light, of_ack])
def test_the_number_of_the_newest_template_counts_in_gangs_of_pods_alone(member: Any) -> None:
    found = reading(member("web-0", EIGHT, "2"), member("web-1", TEN, "3"), member("web-2", NINE, "2"))
    assert found.faults == ()
    assert [gang.min_member for gang in found.gangs] == [3]
    (told,) = (each for each in found.advice if "min-available" in each.field)
    assert told.object.name == "web-1"
    assert 'is "3", but is "2" on Pod default/web-2' in told.text
    others = reading(member("web-0", EIGHT, "2"), member("web-1", TEN, "3", uid="u2"))
    assert [each.object.name for each in others.faults] == ["web-1"]


def test_the_policy_of_the_newest_template_counts_in_a_pod_group() -> None:
    group = """
        apiVersion: scheduling.run.ai/v2
        kind: PodGroup
        metadata: {name: web}
        spec: {minMember: 2}
    """

    def member(name: str, created: str, policy: str, uid: str = "u1") -> Pod:
        annotations = {"scheduling.run.ai/pod-group": "web", POLICY: policy}
        return pod(name, created=created, annotations=annotations, owner=owner(uid))

    def read(*pods: Pod) -> Reading:
        return read_all(Sources(pods, sources(group, SETTINGS).objects))

    found = read(member("web-0", EIGHT, "near"), member("web-1", TEN, "far"))
    assert found.faults == ()
    assert [each.object.name for each in found.advice if each.field.endswith(f"[{POLICY}]")] == ["web-1"]
    others = read(member("web-0", EIGHT, "near"), member("web-1", TEN, "far", uid="u2"))
    assert [each.object.name for each in others.faults] == ["web-1"]


def test_pods_that_nobody_made_have_to_agree() -> None:
    found = reading(of_kueue("a", EIGHT, "rack", uid=""), of_kueue("b", NINE, "block", uid=""))
    assert [(each.object.name, each.problem) for each in found.faults] == [
        ("b", 'is "example.com/block", but is "example.com/rack" on Pod default/a')
    ]
