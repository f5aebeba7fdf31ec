"""The domain that an arriving member cannot leave. The cluster is that of the scenes: spines of 5, 4 and 3 nodes."""

from typing import Any

import pytest
from scenes import Manifest, gang, label, nodes, picture, pod, solved, topology

from kube.objects import Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, ObjectMeta, Pod, PodSpec, Requirement
from kube.topology import Level, Topology, Unlabelled
from planning.decision import Outcome
from planning.framing.ties import holds_affinity, noted, pinned_by_affinity, pinned_domain
from planning.pins import left_behind, made_again, siblings_domain, untied

SPINE_1 = (("example.com/spine", "spine-1"),)
BLOCK_3 = (*SPINE_1, ("example.com/block", "block-3"))
PINNED = "phalanx.dev/pinned-domain"


def at(name: str, on: str, pod_set: str = "", **fields: Any) -> Manifest:
    """A member that runs on a node."""
    made = pod(name, gang="llm", pod_set=pod_set, nodeName=on)
    return {**made, **fields}


def released(name: str, to: str) -> Manifest:
    """A member that was released to a node and is not bound yet."""
    made = pod(name, gang="llm")
    made["metadata"]["annotations"] = {"phalanx.dev/planned-node": to}
    return made


def gated(name: str, to: str = "", pod_set: str = "") -> Manifest:
    """A gated member, nominated to a node unless `to` is empty."""
    made = pod(name, gang="llm", pod_set=pod_set, schedulingGates=[{"name": "phalanx.dev/gang"}])
    return {**made, "status": {"nominatedNodeName": to}} if to else made


def tied(*objects: Manifest, changed: dict[str, dict[str, Any]] | None = None) -> object:
    """The domain of the member "new"; `changed` replaces the spec of nodes."""
    every = [{**each, "spec": (changed or {}).get(each["metadata"]["name"], {})} for each in nodes()]
    gangs, snapshot, topologies = picture(topology(), every, *objects)
    known = {state.name: state.node for state in snapshot.nodes}
    new = next(each for each in gangs[0].members if each.pod.metadata.name.startswith("new"))
    return siblings_domain(gangs[0], new, topologies[0], known.get)


@pytest.mark.parametrize(
    ("what", "spec", "siblings", "expected"),
    [
        ("running siblings", {"required": "spine"}, [at("a", "node-5"), at("b", "node-8")], SPINE_1),
        ("a released sibling", {"required": "spine"}, [released("a", "node-7")], SPINE_1),
        ("the narrowest level", {"required": "block"}, [at("a", "node-7")], BLOCK_3),
        ("no level is required", {}, [at("a", "node-7")], ()),
        ("a level is only preferred", {"preferred": "spine"}, [at("a", "node-7")], ()),
        ("siblings that can be planned anew", {"required": "spine"}, [gated("a", "node-7")], ()),
        ("siblings that are parted already", {"required": "spine"}, [at("a", "node-0"), at("b", "node-5")], ()),
        ("a sibling whose node is gone", {"required": "spine"}, [at("a", "node-7"), at("b", "node-99")], ()),
        ("nobody else", {"required": "spine"}, [], ()),
    ],
)
def test_a_member_is_tied_by(what: str, spec: dict[str, Any], siblings: list[Manifest], expected: object) -> None:
    assert tied(gang(minMember=3, **spec), gated("new"), *siblings) == expected, what


@pytest.mark.parametrize(
    "change",
    [{"unschedulable": True}, {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]}],
    ids=["cordoned", "evicting"],
)
def test_siblings_on_nodes_that_their_pods_will_leave_tie_nobody(change: dict[str, Any]) -> None:
    request = gang(minMember=3, required="spine"), gated("new"), at("a", "node-5"), at("b", "node-8")
    assert tied(*request) == SPINE_1
    assert tied(*request, changed={"node-8": change}) == ()


SETS = [{"name": "driver", "count": 1}, {"name": "worker", "count": 2, "required": "block"}]


@pytest.mark.parametrize(
    ("what", "sibling", "spec", "expected"),
    [
        ("its set's own level", at("w", "node-7", "worker"), {}, BLOCK_3),
        ("not the level of another set", at("d", "node-7", "driver"), {}, ()),
        ("the gang's level", at("d", "node-7", "driver"), {"required": "spine"}, SPINE_1),
        (
            "sets that stay together",
            at("d", "node-7", "driver"),
            {"together": [{"podSets": ["driver", "worker"], "level": "spine"}]},
            SPINE_1,
        ),
    ],
)
def test_among_several_sets(what: str, sibling: Manifest, spec: dict[str, Any], expected: object) -> None:
    assert tied(gang(podSets=SETS, **spec), gated("new", pod_set="worker"), sibling) == expected, what


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (Level("spine", (label("spine"),)), SPINE_1),
        (Level("spine", (label("spine"),), Unlabelled.OWN_DOMAIN), SPINE_1),
        (Level("spine", (label("spine"), "other/spine")), ()),
        (Level("spine", (label("rack"),), Unlabelled.DEFAULT_DOMAIN), ()),
    ],
    ids=["one label", "a node without one is alone", "either of two labels", "a domain without a label"],
)
def test_only_where_labels_tell_the_domain(level: Level, expected: object) -> None:
    parts = gang(minMember=2, required="spine"), gated("new"), at("a", "node-7")
    gangs, snapshot, _ = picture(topology(), nodes(), *parts)
    known = {state.name: state.node for state in snapshot.nodes}
    described = Topology("net", "Topology", (level, Level("node", ("kubernetes.io/hostname",))))
    new = next(each for each in gangs[0].members if each.pod.metadata.name == "new")
    assert siblings_domain(gangs[0], new, described, known.get) == expected


def carrying(*terms: NodeSelectorTerm, note: object = SPINE_1, selector: dict[str, str] | None = None) -> Pod:
    """A pod with these required terms and a note."""
    affinity = Affinity(node_affinity=NodeAffinity(required=NodeSelector(node_selector_terms=terms)))
    annotations = {PINNED: noted(note)} if isinstance(note, tuple) else {}
    spec = PodSpec(affinity=affinity if terms else None, node_selector=selector or {})
    return Pod(metadata=ObjectMeta(name="a", annotations=annotations), spec=spec)


OURS = NodeSelectorTerm(match_expressions=(Requirement(key="example.com/spine", operator="In", values=("spine-1",)),))
OTHERS = NodeSelectorTerm(match_expressions=(Requirement(key="gpu", operator="Exists"),))


@pytest.mark.parametrize(
    ("what", "pod", "users"),
    [
        ("no affinity", carrying(note=None), False),
        ("ours", carrying(OURS), False),
        ("the same without our note", carrying(OURS, note=None), True),
        ("another one", carrying(OTHERS), True),
        ("ours and another one", carrying(OURS, OTHERS), True),
        ("his, with ours in the selector", carrying(OURS, selector={"example.com/spine": "spine-1"}), True),
    ],
)
def test_a_users_own_affinity_is_told_from_ours(what: str, pod: Pod, *, users: bool) -> None:
    assert holds_affinity(pod) is users, what


BESIDE_HIS = carrying(OTHERS, selector={"example.com/spine": "spine-1"})


@pytest.mark.parametrize(
    ("what", "pod", "domain", "by_affinity"),
    [
        ("in the affinity", carrying(OURS), SPINE_1, SPINE_1),
        ("in the selector", BESIDE_HIS, SPINE_1, ()),
        ("without a note", carrying(OURS, note=None), (), ()),
        ("only noted", carrying(), (), ()),
        ("another domain is noted", carrying(OURS, note=BLOCK_3), (), ()),
        ("only noted, beside another affinity", carrying(OTHERS), (), ()),
    ],
)
def test_a_tie_is_what_is_noted_and_stands(what: str, pod: Pod, domain: object, by_affinity: object) -> None:
    assert (pinned_domain(pod), pinned_by_affinity(pod)) == (domain, by_affinity), what


OWNERS = [
    ("apps/v1", "ReplicaSet", True),
    ("apps/v1", "StatefulSet", True),
    ("v1", "ReplicationController", True),
    ("batch/v1", "Job", False),
    ("kubeflow.org/v1", "PyTorchJob", False),
    ("example.com/v1", "ReplicaSet", False),
]


@pytest.mark.parametrize(("version", "kind", "again"), OWNERS)
def test_only_a_pod_that_is_made_again_for_nothing_is_tied_by_its_controller(
    version: str, kind: str, *, again: bool
) -> None:
    new = gated("new")
    owner = {"apiVersion": version, "kind": kind, "name": "x", "uid": "uid-x", "controller": True}
    new["metadata"]["ownerReferences"] = [owner]
    assert tied(gang(minMember=2, required="spine"), new, at("a", "node-7")) == (SPINE_1 if again else ())
    gangs, _, _ = picture(topology(), nodes(), gang(minMember=1), new)
    assert made_again(gangs[0].members[0].pod) is again


def test_a_bare_pod_is_tied_but_nobody_makes_it_again() -> None:
    gangs, _, _ = picture(topology(), nodes(), gang(minMember=1), gated("new"))
    assert not made_again(gangs[0].members[0].pod)


def tied_earlier(name: str, **spec: Any) -> Manifest:
    """A gated member that came when its siblings ran in spine-2."""
    made = gated(name)
    term = {"matchExpressions": [{"key": label("spine"), "operator": "In", "values": ["spine-2"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    made["spec"] |= {"affinity": {"nodeAffinity": required}, **spec}
    made["metadata"]["annotations"] = {PINNED: f"{label('spine')}=spine-2"}
    return made


REMEDY = "; pod new was tied to siblings that are gone: delete it to be recreated without that"


@pytest.mark.parametrize(
    ("what", "others", "message"),
    [
        (
            "there is room where it is tied to",
            [gated("b"), gated("c")],
            "3 pods fit in spine-2/block-4: node-9..11, proven optimal",
        ),
        ("there is none", [gated(name) for name in "bcd"], "needs 4 pods in one spine"),
    ],
)
def test_a_member_that_its_siblings_have_left_behind(what: str, others: list[Manifest], message: str) -> None:
    parts = gang(minMember=len(others) + 1, required="spine"), tied_earlier("new"), *others
    (decision,) = solved(topology(), nodes(), *parts).decisions
    assert decision.message.startswith(message), what
    assert decision.message.endswith(REMEDY) is (decision.outcome is Outcome.UNPLACEABLE)
    assert [pod.metadata.name for pod in left_behind(picture(topology(), nodes(), *parts)[0][0])] == ["new"]


def test_a_member_with_a_sibling_left_is_not_left_behind() -> None:
    gangs, _, _ = picture(
        topology(), nodes(), gang(minMember=2, required="spine"), tied_earlier("new"), at("a", "node-9")
    )
    assert left_behind(gangs[0]) == ()


def test_an_untied_gang_asks_for_all_but_the_old_ties_of_the_members_named() -> None:
    beside = tied_earlier("other", affinity={"nodeAffinity": {}}, nodeSelector={label("spine"): "spine-2", "a": "b"})
    gangs, _, _ = picture(topology(), nodes(), gang(minMember=3), tied_earlier("new"), beside, tied_earlier("kept"))
    pods = {member.pod.metadata.name: member.pod for member in gangs[0].members}
    free = untied(gangs[0], [pods["new"], pods["other"]])
    after = {member.pod.metadata.name: member.pod for member in free.members}
    assert after["kept"] is pods["kept"]
    assert not pinned_domain(after["new"])
    assert not holds_affinity(after["new"])
    assert after["other"].spec.node_selector == {"a": "b"}
    assert [each.metadata for each in after.values()] == [each.metadata for each in pods.values()]
