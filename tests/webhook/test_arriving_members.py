"""A member that is created while its siblings already run: what its CREATE changes, and which warnings it gets.

r0: node-0 node-1      r1: node-2 node-3
"""

from collections.abc import Mapping
from typing import Any

import jsonpatch
import msgspec
import pytest
from pictures import Manifest, StillPicture, node, pod, topology

from gangs.model import Gang
from kube.objects import Node, Pod
from planning.framing.ties import holds_affinity, pinned_domain
from webhook.admission import arriving_pods
from webhook.admission.reviews import Admitted

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
RACK = "example.com/rack"
NODES = [node(f"node-{number}", rack=f"r{number // 2}") for number in range(4)]
BESIDE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": RACK, "operator": "In", "values": ["r1"]}]}]}
NOTE = {"phalanx.dev/pinned-domain": f"{RACK}=r1"}
OWN = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]}


def gang(**spec: Any) -> Manifest:
    """The Gang `llm` of four members in one rack."""
    metadata = {"name": "llm", "namespace": "default"}
    whole = {"minMember": 4, "required": "rack", **spec}
    return {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": metadata, "spec": whole}


def member(name: str = "new", *, uid: str = "", annotations: Mapping[str, str] | None = None, **spec: Any) -> Manifest:
    """Return a pod of the gang, at its CREATE or as stored."""
    made = pod(name, labels={"phalanx.dev/gang": "llm"}, annotations=annotations, **spec)
    if uid:
        made["metadata"]["uid"] = uid
    return made


SIBLINGS = [member(f"p{number}", uid=str(number), nodeName=f"node-{2 + number}") for number in range(2)]


def told(of: Gang, _whole: object = None) -> tuple[str, ...]:
    """Forecast of these tests: report the number of members."""
    return (f"{of.key.name} has {len(of.members)}",)


def answer(manifest: Manifest, *siblings: Manifest, request: Manifest | None = None, **picture: Any) -> Admitted:
    """The answer to the CREATE of a pod."""
    still = StillPicture([request or gang(), topology("rack")], nodes=NODES, pods=siblings, **picture)
    decision = arriving_pods.created(manifest, still, told)
    assert isinstance(decision, Admitted), decision
    return decision


def admitted(manifest: Manifest, *siblings: Manifest, request: Manifest | None = None) -> Manifest:
    """Return the pod as it is stored after its admission."""
    decision = answer(manifest, *siblings, request=request)
    result: Manifest = jsonpatch.JsonPatch(decision.patch).apply(manifest)
    return result


def test_a_replacement_gets_the_domain_of_its_siblings_while_it_is_gated() -> None:
    after = admitted(member(), *SIBLINGS)
    assert after["spec"]["schedulingGates"] == [{"name": "phalanx.dev/gang"}]
    assert after["spec"]["affinity"] == {"nodeAffinity": {REQUIRED: BESIDE}}
    assert after["metadata"]["annotations"] == NOTE
    seen = msgspec.convert(after, Pod)
    assert (pinned_domain(seen), holds_affinity(seen)) == (((RACK, "r1"),), False)


@pytest.mark.parametrize(
    ("what", "siblings", "request_"),
    [
        ("the gang is new", [], gang()),
        ("its siblings can still be planned anew", [member("p0", uid="0")], gang()),
        ("no level is required", SIBLINGS, gang(required=None)),
        ("its siblings are on their way out", [{**each, "status": {"phase": "Failed"}} for each in SIBLINGS], gang()),
    ],
)
def test_any_other_member_comes_free(what: str, siblings: list[Manifest], request_: Manifest) -> None:
    after = admitted(member(), *siblings, request=request_)
    assert "affinity" not in after["spec"], what
    assert "annotations" not in after["metadata"], what


def test_other_wishes_of_the_pod_stay() -> None:
    preferred = [{"weight": 1, "preference": {"matchExpressions": [{"key": "fast", "operator": "Exists"}]}}]
    other = {"podAffinity": {}, "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    after = admitted(member(affinity=other, nodeSelector={"zone": "a"}), *SIBLINGS)
    assert after["spec"]["affinity"] == {**other, "nodeAffinity": {**other["nodeAffinity"], REQUIRED: BESIDE}}
    assert after["spec"]["nodeSelector"] == {"zone": "a"}


def test_beside_a_required_affinity_of_the_users_the_domain_goes_into_the_node_selector() -> None:
    own = {"nodeAffinity": {REQUIRED: OWN}}
    after = admitted(member(affinity=own), *SIBLINGS)
    assert after["spec"]["affinity"] == own
    assert after["spec"]["nodeSelector"] == {RACK: "r1"}
    assert after["metadata"]["annotations"] == NOTE
    assert holds_affinity(msgspec.convert(after, Pod))


@pytest.mark.parametrize("rack", ["r1", "r0"], ids=["the same domain", "another one"])
def test_a_pod_that_names_its_domain_itself_gets_nothing(rack: str) -> None:
    after = admitted(member(nodeSelector={RACK: rack}), *SIBLINGS)
    assert "affinity" not in after["spec"]
    assert after["spec"]["nodeSelector"] == {RACK: rack}


@pytest.mark.parametrize("own", [None, {"nodeAffinity": {REQUIRED: OWN}}], ids=["plain", "with an affinity"])
def test_admitting_it_again_changes_nothing(own: Manifest | None) -> None:
    first = admitted(member(affinity=own) if own else member(), *SIBLINGS)
    assert admitted(first, *SIBLINGS) == first


def test_a_member_on_its_way_back_is_not_counted_beside_the_one_that_it_replaces() -> None:
    leaving = member("new", uid="9", nodeName="node-3")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert answer(member(), *SIBLINGS, leaving).warnings == ("llm has 3",)


def test_a_node_is_asked_for_by_its_name_only() -> None:
    still = StillPicture([gang(), topology("rack")], nodes=NODES, pods=SIBLINGS)
    found = still.node("node-2")
    assert isinstance(found, Node)
    assert still.node("node-9") is None


def test_what_becomes_of_the_gang_is_told_at_the_create_of_a_bare_pod() -> None:
    assert answer(member()).warnings == ("llm has 1",)
    assert answer(member(), synced=False).warnings == ()


@pytest.mark.parametrize(("version", "kind", "pinned"), [("apps/v1", "ReplicaSet", True), ("batch/v1", "Job", False)])
def test_a_pod_that_a_controller_makes_is_pinned_unless_making_it_again_had_a_price(
    version: str, kind: str, *, pinned: bool
) -> None:
    """A Job counts a deleted pod as failed, so its pods are never pinned. Pods of both kinds get no warning."""
    owner = {"apiVersion": version, "kind": kind, "name": "train", "uid": "1", "controller": True}
    owned = [*SIBLINGS, member()]
    for each in owned:
        each["metadata"] = {**each["metadata"], "ownerReferences": [owner]}
    decision = answer(owned[-1], *owned[:-1])
    assert any(each["path"] == "/spec/affinity" for each in decision.patch) is pinned
    assert decision.warnings == ()


def test_all_groups_of_a_gang_are_counted() -> None:
    prefix = "gang.scheduling.koordinator.sh/"
    both = '["default/a", "default/b"]'
    groups = [
        {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "default", "annotations": {f"{prefix}groups": both}},
            "spec": {"minMember": 2},
        }
        for name in "ab"
    ]
    label = "pod-group.scheduling.sigs.k8s.io"
    existing = [pod(f"b-{number}", labels={label: "b"}) for number in range(2)]
    still = StillPicture([*groups, topology("rack")], nodes=NODES, pods=existing)
    decision = arriving_pods.created(pod("a-0", labels={label: "a"}), still, told)
    assert isinstance(decision, Admitted)
    assert [each.rpartition(" ")[2] for each in decision.warnings] == ["3"]
