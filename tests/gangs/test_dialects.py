"""The questions that other packages ask of all dialects together."""

from typing import Any

import pytest
from koordinator_objects import gather, group, member
from written import DATACENTER, NETWORK, documents, pod, sources

from gangs.dialects.claims import dialect_of, names_nothing, protected
from gangs.dialects.reading import read_all
from gangs.dialects.reviewing import review
from gangs.dialects.table import DIALECTS, all_kinds
from gangs.dialects.topologies import topologies, topology_of
from gangs.model import Fault, GangKey
from gangs.sources import Sources
from kube import keys
from kube.topology import Topology

OWN, GROUP = "phalanx.dev/gang", "pod-group.scheduling.sigs.k8s.io"
NAMED = "gang.scheduling.koordinator.sh/name"
JOB = {"kind": "Job", "name": "train", "controller": True}

CLAIMS = {
    "nothing": ({}, {}, None, None),
    "our label": ({OWN: "g"}, {}, None, ("phalanx", "g")),
    "our label on a Job's template, which names the Job": (
        {"phalanx.dev/workload": "Job"},
        {},
        JOB,
        ("phalanx", "train"),
    ),
    "the same with the label that admission added": (
        {"phalanx.dev/workload": "Job", OWN: "train"},
        {},
        JOB,
        ("phalanx", "train"),
    ),
    "the template's label without a Job": ({"phalanx.dev/workload": "Job"}, {}, None, None),
    "a PodGroup": ({GROUP: "g"}, {}, None, ("koordinator", "g")),
    "a lightweight gang": ({f"{GROUP}/name": "g"}, {}, None, ("koordinator", "g")),
    "an annotation": ({}, {NAMED: "g"}, None, ("koordinator", "g")),
    "a PodGroup before the others": ({GROUP: "a", f"{GROUP}/name": "b"}, {NAMED: "c"}, None, ("koordinator", "a")),
    "both dialects: ours": ({GROUP: "g", OWN: "h"}, {}, None, ("phalanx", "h")),
    "both, admitted as the other's": (
        {GROUP: "g", OWN: "g", keys.DIALECT: "koordinator"},
        {},
        None,
        ("koordinator", "g"),
    ),
    "a dialect that does not know it": ({OWN: "g", keys.DIALECT: "koordinator"}, {}, None, ("phalanx", "g")),
}


@pytest.mark.parametrize(("labels", "annotations", "owner", "claim"), CLAIMS.values(), ids=CLAIMS)
def test_a_pod_is_claimed_by(
    labels: dict[str, str], annotations: dict[str, str], owner: dict[str, Any] | None, claim: tuple[str, str] | None
) -> None:
    found = dialect_of(pod("p", labels=labels, annotations=annotations, owner=owner))
    assert (found and found[1]) == (claim and GangKey(claim[0], "default", claim[1]))
    assert found is None or found[0].name == found[1].dialect


def test_the_api_server_can_recognise_every_pod_that_a_dialect_claims() -> None:
    """Match conditions are made of these keys: a key that is missing there would let members through ungated."""
    for labels, annotations, owner, claim in CLAIMS.values():
        if claim is None:
            continue
        (dialect,) = (each for each in DIALECTS if each.name == claim[0])
        assert set(labels) & set(dialect.pod_keys.labels) or set(annotations) & set(dialect.pod_keys.annotations)
        assert dialect_of(pod("p", labels=labels, annotations=annotations, owner=owner)) is not None


def test_each_key_that_names_a_gang_in_some_dialect_is_noticed() -> None:
    """Pods without such a key are not shown to the dialects at all."""
    for dialect in DIALECTS:
        for key in dialect.pod_keys.labels:
            assert not names_nothing(pod("p", labels={key: "g"}))
        for key in dialect.pod_keys.annotations:
            assert not names_nothing(pod("p", annotations={key: "g"}))
    assert not names_nothing(pod("p", schedulingGroup={"podGroupName": "g"}))
    assert names_nothing(pod("p", labels={"app": "web"}, annotations={"example.com/note": "none"}))


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ({}, ""),
        ({"scheduling.koordinator.sh/disable-preemptible": "false"}, ""),
        (
            {"scheduling.koordinator.sh/disable-preemptible": "true"},
            "label scheduling.koordinator.sh/disable-preemptible=true",
        ),
        ({"quota.scheduling.koordinator.sh/preemptible": "true"}, ""),
        (
            {"quota.scheduling.koordinator.sh/preemptible": "false"},
            "label quota.scheduling.koordinator.sh/preemptible=false",
        ),
    ],
)
def test_a_dialect_may_protect_any_pod(labels: dict[str, str], reason: str) -> None:
    assert protected(pod("p", labels=labels)) == reason


def test_every_kind_is_watched_once() -> None:
    watched = [(each.group, each.kind, each.namespaced) for each in all_kinds() if each.only is None]
    assert len(watched) == len(set(watched))
    assert set(watched) >= {
        ("phalanx.dev", "Gang", True),
        ("batch", "Job", True),
        ("phalanx.dev", "Topology", False),
        ("scheduling.sigs.k8s.io", "PodGroup", True),
        ("scheduling.koordinator.sh", "ClusterNetworkTopology", False),
        ("scheduling.run.ai", "PodGroup", True),
        ("scheduling.koordinator.sh", "JobNetworkTopology", True),
    }


GANG = """
    apiVersion: phalanx.dev/v1alpha1
    kind: Gang
    metadata: {name: llm}
    spec: {minMember: 2}
"""


def test_gangs_of_all_dialects_are_read_in_one_order() -> None:
    reading = read_all(sources(group("b"), group("a"), GANG, DATACENTER, NETWORK.replace("name: default", "name: x")))
    assert [(each.key.dialect, each.key.name) for each in reading.gangs] == [
        ("phalanx", "llm"),
        ("koordinator", "a"),
        ("koordinator", "b"),
    ]
    assert [each.object.name for each in reading.advice] == ["x"]


def test_one_wrong_gang_leaves_the_others_alone() -> None:
    reading = read_all(sources(group("a", minimum=0), group("b"), GANG))
    assert [each.key.name for each in reading.gangs] == ["llm", "b"]
    assert [str(each.object) for each in reading.faults] == ["PodGroup default/a"]


def test_a_pod_that_admission_has_labelled_stays_with_its_dialect() -> None:
    admitted = pod("p", labels={GROUP: "g", OWN: "g", keys.DIALECT: "koordinator"})
    (gang,) = read_all(Sources(pods=[admitted], objects=sources(group()).objects)).gangs
    assert (gang.key.dialect, len(gang.members)) == ("koordinator", 1)


ANNEX = DATACENTER.replace("datacenter", "annex")
CHOICES = {
    "the only one": ("{minMember: 1}", (DATACENTER,), "datacenter"),
    "the one it names": ("{minMember: 1, topology: annex}", (DATACENTER, ANNEX), "annex"),
    "one of another kind, if that is all there is": ("{minMember: 1}", (NETWORK,), "default"),
    "none": ("{minMember: 1}", (), None),
    "none while the one it names is missing": ("{minMember: 1, topology: hall}", (DATACENTER,), None),
}


@pytest.mark.parametrize(("spec", "objects", "name"), CHOICES.values(), ids=CHOICES)
def test_a_gang_is_placed_in(spec: str, objects: tuple[str, ...], name: str | None) -> None:
    written = sources(GANG.replace("{minMember: 2}", spec), *objects)
    (gang,) = read_all(written).gangs
    found = topology_of(gang, topologies(written)[0])
    assert (found.name if isinstance(found, Topology) else found) == name


def test_a_topology_that_changes_under_a_gang_is_a_fault_with_the_gang_named() -> None:
    gang = read_all(sources(group(network_topology_spec=gather(("BlockLayer", "MustGather"))), NETWORK)).gangs[0]
    smaller = NETWORK.replace("BlockLayer", "PodLayer")
    assert str(topology_of(gang, topologies(sources(smaller))[0])) == (
        'PodGroup default/g: spec: "BlockLayer" is not a level of ClusterNetworkTopology default; its levels are '
        "SpineLayer (example.com/spine), PodLayer (example.com/block), NodeTopologyLayer (kubernetes.io/hostname)"
    )


def test_a_second_topology_is_a_fault_of_a_gang_that_names_none() -> None:
    (gang,) = read_all(sources(GANG, DATACENTER)).gangs
    found = topology_of(gang, topologies(sources(DATACENTER, ANNEX))[0])
    assert isinstance(found, Fault)
    assert found.remedy == "name one of annex, datacenter"


def test_an_object_of_no_dialect_has_nothing_to_review() -> None:
    (config,) = documents("{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: default}}")
    (alone,) = documents("{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: default}, spec: {}}")
    assert review(config, sources(GANG)) == ([], [])
    assert review(alone, sources(GANG)) == ([], [])


def test_a_job_of_no_gang_says_nothing_of_a_gang_that_has_its_name() -> None:
    (job,) = documents(
        "{apiVersion: batch/v1, kind: Job, metadata: {name: llm, namespace: default}, spec: {template: {}}}"
    )
    assert review(job, sources(GANG.replace("minMember: 2", "minMember: 0"))) == ([], [])


def test_what_a_sibling_has_wrong_is_only_a_warning() -> None:
    wrong = member("first", annotations={"gang.scheduling.koordinator.sh/network-topology-index": "x"})
    (newcomer,) = documents(f"""
        apiVersion: v1
        kind: Pod
        metadata: {{name: second, namespace: default, labels: {{{GROUP}: g}}}}
        spec: {{}}
    """)
    faults, advice = review(newcomer, Sources(pods=[wrong], objects=sources(group()).objects))
    assert faults == []
    assert len(advice) == 1
    assert advice[0].text.startswith("the gang default/g cannot be planned: Pod default/first: ")


def test_a_pod_under_review_replaces_what_it_was() -> None:
    index = "gang.scheduling.koordinator.sh/network-topology-index"
    before = member("p", annotations={index: "0"})
    (after,) = documents(f"""
        apiVersion: v1
        kind: Pod
        metadata: {{name: p, namespace: default, labels: {{{GROUP}: g}}, annotations: {{{index}: "0"}}}}
        spec: {{}}
    """)
    assert review(after, Sources(pods=[before], objects=sources(group()).objects)) == ([], [])


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        (
            {"labels": {"phalanx.dev/gang": "llm"}},
            "metadata.labels[phalanx.dev/gang]: the gang default/llm waits for Gang default/llm",
        ),
        (
            {"labels": {"pod-group.scheduling.sigs.k8s.io": "llm"}},
            "metadata.labels[pod-group.scheduling.sigs.k8s.io]: the gang default/llm waits for PodGroup default/llm",
        ),
        (
            {"annotations": {"scheduling.run.ai/pod-group": "llm"}},
            "metadata.annotations[scheduling.run.ai/pod-group]: the gang default/llm waits for PodGroup default/llm",
        ),
    ],
    ids=["our own", "Koordinator", "KAI"],
)
def test_a_pod_is_told_by_which_field_it_names_what_its_gang_waits_for(metadata: dict[str, Any], said: str) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default", **metadata}}
    _, advice = review(pod, Sources())
    assert [str(each) for each in advice] == [f"Pod default/a: {said}"]
