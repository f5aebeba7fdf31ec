"""Groups of gangs over namespaces: a group forms only if all gangs agree; a one-sided claim affects its author only.

Tenant a writes in team-a, tenant b in team-b. A claim of tenant a about b's gangs changes neither the reading of b's
gangs nor the messages to tenant b.
"""

from typing import Any

import pytest
from written import NETWORK, pod, sources

from gangs.dialects.reading import read_all
from gangs.dialects.reviewing import arrival, review
from gangs.incremental.gang_store import GangStore
from gangs.model import Gang, GangKey, Reading
from gangs.sources import Sources

pytestmark = pytest.mark.repetitive

PREFIX = "gang.scheduling.koordinator.sh"
SHARED = {"team-a": "team-b", "team-b": "team-c, team-a"}
BOTH = '["team-a/x", "team-b/training"]'
MUST = '{"gatherStrategy": [{"layer": "SpineLayer", "strategy": "MustGather"}]}'

B = GangKey("koordinator", "team-b", "training")


def group(at: str, groups: str = "", minimum: int = 1, spec: str = "") -> str:
    """A PodGroup `namespace/name`."""
    namespace, name = at.split("/")
    lines = [f"{PREFIX}/groups: '{groups}'"] if groups else []
    lines += [f"{PREFIX}/network-topology-spec: '{spec}'"] if spec else []
    annotations = "{" + ", ".join(lines) + "}"
    return f"""
        apiVersion: scheduling.sigs.k8s.io/v1alpha1
        kind: PodGroup
        metadata: {{name: {name}, namespace: {namespace}, annotations: {annotations}}}
        spec: {{minMember: {minimum}}}
    """


def in_group(at: str, group: str, **more: Any) -> Any:
    """A pod of a PodGroup."""
    return pod(at, labels={"pod-group.scheduling.sigs.k8s.io": group}, **more)


def annotated(at: str, gang: str, groups: str, **more: Any) -> Any:
    """A pod of a gang without an object, which lists others."""
    said = {"name": gang, "min-available": "1", "groups": groups}
    return pod(at, annotations={f"{PREFIX}/{key}": value for key, value in said.items()}, **more)


def standing(*texts: str, pods: tuple[Any, ...] = (), sharing: dict[str, str] | None = None) -> Sources:
    return Sources(pods, sources(NETWORK, *texts).objects, sharing=sharing or {})


def of(reading: Reading, namespace: str) -> list[Gang]:
    return [each for each in reading.gangs if each.key.namespace == namespace]


MEMBERS = tuple(in_group(f"team-b/t-{number}", "training") for number in range(2))
UNDISTURBED = standing(group("team-b/training", minimum=2), pods=MEMBERS)

CLAIMS: dict[str, tuple[tuple[str, ...], tuple[Any, ...]]] = {
    "a PodGroup that lists it": ((group("team-a/x", BOTH),), ()),
    "a PodGroup that lists it and not itself": ((group("team-a/x", '["team-b/training"]'),), ()),
    "a PodGroup that is wrong": ((group("team-a/x", BOTH, minimum=0),), ()),
    "one that asks otherwise of the network": ((group("team-a/x", BOTH, spec=MUST),), ()),
    "600 of them": (
        tuple(group(f"team-a/x{each}", f'["team-a/x{each}", "team-b/training"]') for each in range(600)),
        (),
    ),
    "a pod of a PodGroup that is missing": ((), (annotated("team-a/p", "nopg", '["team-a/nopg", "team-b/training"]'),)),
    "a pod that has its node already": (
        (),
        (annotated("team-a/p", "y", '["team-a/y", "team-b/training"]', nodeName="node-1"),),
    ),
    "a pod of another priority": ((group("team-a/x", BOTH),), (in_group("team-a/p", "x", priority=9),)),
}


@pytest.mark.parametrize(("objects", "pods"), CLAIMS.values(), ids=CLAIMS)
@pytest.mark.parametrize(
    "sharing", [{}, {"team-a": "*"}, {"team-a": "*", "team-b": "team-a"}], ids=["none", "a", "both"]
)
def test_what_others_list_changes_nothing(
    objects: tuple[str, ...], pods: tuple[Any, ...], sharing: dict[str, str]
) -> None:
    there = standing(*objects, group("team-b/training", minimum=2), pods=(*pods, *MEMBERS), sharing=sharing)
    reading = read_all(there)
    assert of(reading, "team-b") == of(read_all(UNDISTURBED), "team-b")
    assert [each for each in reading.faults if each.object.namespace == "team-b"] == []
    kept = GangStore(there)
    assert kept.gang(B) == of(reading, "team-b")[0]
    assert kept.faults_of(B) == ()


@pytest.mark.parametrize(("objects", "pods"), CLAIMS.values(), ids=CLAIMS)
def test_what_others_list_is_not_told(objects: tuple[str, ...], pods: tuple[Any, ...]) -> None:
    """Neither at the CREATE of the PodGroup nor at that of its pods."""
    (written,) = (each for each in sources(group("team-b/training", minimum=2)).objects.values())
    assert review(written, standing(*objects, pods=pods)) == review(written, standing())
    there = standing(*objects, group("team-b/training", minimum=2), pods=(*pods, MEMBERS[0]))
    coming = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "t-1",
            "namespace": "team-b",
            "labels": {"pod-group.scheduling.sigs.k8s.io": "training"},
        },
        "spec": {"containers": []},
    }
    alone = standing(group("team-b/training", minimum=2), pods=(MEMBERS[0],))
    assert arrival(coming, there) == arrival(coming, alone)


def test_whoever_claims_waits_and_says_for_what() -> None:
    reading = read_all(standing(group("team-a/x", BOTH), group("team-b/training"), sharing={"team-a": "*"}))
    (gang,) = of(reading, "team-a")
    assert gang.waiting_for == ("Namespace team-b to share its groups with team-a (phalanx.dev/shares-groups-with)",)
    reading = read_all(standing(group("team-a/x", BOTH), group("team-b/training"), sharing=SHARED))
    (gang,) = of(reading, "team-a")
    assert gang.waiting_for == ("PodGroup team-b/training to list the same gangs",)
    assert reading.faults == ()


def test_of_a_closed_namespace_nothing_is_learnt() -> None:
    """A user cannot even find out whether the listed gangs of the closed namespace exist."""
    with_it, without = (
        of(read_all(standing(group("team-a/x", BOTH), *more)), "team-a") for more in ((group("team-b/training"),), ())
    )
    assert with_it == without


def test_those_that_name_each_other_are_one_gang() -> None:
    (gang,) = read_all(standing(group("team-a/x", BOTH), group("team-b/training", BOTH), sharing=SHARED)).gangs
    assert [str(each) for each in gang.groups] == ["PodGroup team-a/x", "PodGroup team-b/training"]
    assert gang.waiting_for == ()


@pytest.mark.parametrize(
    "sharing", [{}, {"team-a": "team-b"}, {"team-b": "team-a"}, {"team-a": "team-c", "team-b": "*"}]
)
def test_both_namespaces_must_share(sharing: dict[str, str]) -> None:
    reading = read_all(standing(group("team-a/x", BOTH), group("team-b/training", BOTH), sharing=sharing))
    assert [str(each.key) for each in reading.gangs] == ["team-a/x", "team-b/training"]
    assert all(each.waiting_for for each in reading.gangs)


def test_a_third_one_that_is_listed_must_agree_too() -> None:
    three = '["team-a/x", "team-b/training", "team-c/z"]'
    texts = group("team-a/x", three), group("team-b/training", BOTH), group("team-c/z", three)
    reading = read_all(standing(*texts, sharing={"team-a": "*", "team-b": "*", "team-c": "*"}))
    assert [str(each.key) for each in reading.gangs] == ["team-a/x", "team-b/training", "team-c/z"]
    assert all(each.waiting_for for each in reading.gangs)


WRONG: dict[str, tuple[str, tuple[Any, ...]]] = {
    "a rank that is no number": (
        group("team-a/x", BOTH),
        (in_group("team-a/p", "x", annotations={f"{PREFIX}/network-topology-index": "one"}),),
    ),
    "another priority": (
        group("team-a/x", BOTH),
        (in_group("team-a/p", "x", priority=9, created="2020-01-01T00:00:00Z"),),
    ),
    "another wish for the network": (group("team-a/x", BOTH, spec=MUST), ()),
    "a minimum of nothing": (group("team-a/x", BOTH, minimum=0), ()),
}


@pytest.mark.parametrize(("hers", "pods"), WRONG.values(), ids=WRONG)
def test_what_goes_wrong_in_a_group_is_a_fault_of_its_own_side(hers: str, pods: tuple[Any, ...]) -> None:
    texts = hers, group("team-b/training", BOTH, minimum=2)
    reading = read_all(standing(*texts, pods=(*pods, *MEMBERS), sharing=SHARED))
    assert [each for each in reading.faults if each.object.namespace != "team-a"] == []
    (his,) = of(reading, "team-b")
    assert his.waiting_for == ("PodGroup team-a/x, with which it is grouped, to be valid together with it",)
    assert [each.pod.metadata.name for each in his.members] == ["t-0", "t-1"]


NET = """
    apiVersion: scheduling.koordinator.sh/v1alpha1
    kind: JobNetworkTopology
    metadata: {{name: net, namespace: team-b}}
    spec: {{topologyStrategy: [{{layer: SpineLayer, strategy: {strategy}}}], workerNum: 2}}
"""


def lingjun(at: str, minimum: str = "2") -> Any:
    """A pod of team-a that names the JobNetworkTopology of team-b."""
    said = {"network-topology-job-name": "net", "network-topology-job-namespace": "team-b"}
    named = {"pod-group.scheduling.sigs.k8s.io/name": "g", "pod-group.scheduling.sigs.k8s.io/min-available": minimum}
    return pod(at, labels={**said, **named})


def test_a_network_of_a_closed_namespace_is_not_read() -> None:
    pods = lingjun("team-a/p-0"), lingjun("team-a/p-1")
    (shut,) = read_all(standing(NET.format(strategy="MustGather"), pods=pods, sharing={"team-b": "team-c"})).gangs
    (absent,) = read_all(standing(pods=pods, sharing={"team-b": ""})).gangs
    assert shut == absent
    assert shut.waiting_for == ("Namespace team-b to share its groups with team-a (phalanx.dev/shares-groups-with)",)
    for said in ({"team-b": "team-a"}, {"team-b": "team-c, team-a"}, {}):
        (shared,) = read_all(standing(NET.format(strategy="MustGather"), pods=pods, sharing=said)).gangs
        assert (shared.required, shared.waiting_for) == ("SpineLayer", ())


def test_a_network_that_is_wrong_is_told_to_its_own_namespace_alone() -> None:
    pods = lingjun("team-a/p-0"), lingjun("team-a/p-1")
    reading = read_all(standing(NET.format(strategy="Sometimes"), pods=pods, sharing={"team-b": "team-a"}))
    assert {each.object.namespace for each in reading.faults} == {"team-b"}
    (hers,) = reading.gangs
    assert hers.waiting_for == ("JobNetworkTopology team-b/net to be corrected",)


def test_the_pods_that_name_a_network_say_nothing_to_its_author() -> None:
    there = standing(pods=(lingjun("team-a/p-0", minimum="many"),), sharing={"team-b": "team-a"})
    (written,) = (each for key, each in sources(NET.format(strategy="MustGather")).objects.items())
    assert review(written, there) == review(written, standing())


GANG = """
    apiVersion: phalanx.dev/v1alpha1
    kind: Gang
    metadata: {name: g, namespace: team-b}
    spec: {minMember: 2, queue: research}
"""
QUEUE = """
    apiVersion: kueue.x-k8s.io/v1beta1
    kind: LocalQueue
    metadata: {name: q, namespace: team-a}
    spec: {clusterQueue: pool}
"""


def test_a_queue_of_one_namespace_changes_no_gang_of_another() -> None:
    """Where the cluster has none, a queue's name is a label: one tenant's LocalQueue does not make it more."""
    queued = pod("team-b/p-0", labels={"kueue.x-k8s.io/queue-name": "research", "kueue.x-k8s.io/pod-group-name": "k"})
    without, beside = (read_all(standing(GANG, *more, pods=(queued,))) for more in ((), (QUEUE,)))
    assert (without.gangs, without.faults) == (beside.gangs, beside.faults)
    (hers,) = read_all(standing(GANG, QUEUE.replace("q, namespace: team-a", "research, namespace: team-b"))).gangs
    assert hers.waiting_for == ("ClusterQueue pool",)
