"""How a member is pinned at its release.

r1: n1, n2      r2: n3
"""

from typing import Any

import pytest
from protocol_scenes import RACK, TOPOLOGY, gang, node, pod, snapshot

from controller.release.next_step import Planned
from controller.release.patches import release_patch
from controller.release.pinning import solved_domain
from kube.keys import PINNED_DOMAIN
from kube.objects import Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, PodAffinity, Requirement
from planning.pins import domain_labels

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
USERS_OWN = Affinity(
    node_affinity=NodeAffinity(
        required=NodeSelector(
            node_selector_terms=(NodeSelectorTerm(match_expressions=(Requirement(key="gpu", operator="Exists"),)),)
        )
    )
)


def domain(*nodes: str, indexed: bool = False, affinity: Affinity | None = None, others: Any = ()) -> Any:
    """The solved domain of a gang planned on these nodes."""
    members = [pod(f"m{i}", nominated=each, affinity=affinity) for i, each in enumerate(nodes)]
    planned = [Planned(each, at) for each, at in zip(members, nodes, strict=True)]
    return solved_domain(gang(*members, indexed=indexed), planned, snapshot(*members, *others), [TOPOLOGY])


NOW = "2026-01-01T00:00:00Z"


def test_a_gang_inside_one_rack_is_pinned_to_the_rack() -> None:
    assert domain("n1", "n2") == ((RACK, "r1"),)


@pytest.mark.parametrize(
    ("why", "options"),
    [
        ("an index promises each its node", {"indexed": True}),
        ("members constrain each other", {"affinity": Affinity(pod_anti_affinity=PodAffinity())}),
        (
            "the scheduler could evict a pod that the plan spares",
            {"others": (pod("low", bound="n2", priority=1, cpu="1"),)},
        ),
    ],
)
def test_exact_nodes_are_pinned_where(why: str, options: dict[str, Any]) -> None:
    assert domain("n1", "n2", **options) == (), why


def test_a_gang_over_several_racks_is_pinned_to_its_exact_nodes() -> None:
    assert domain("n1", "n3") == ()


def test_without_a_user_affinity_the_exact_node_goes_into_match_fields() -> None:
    patch = release_patch(pod("a", nominated="n1"), node("n1"), domain=(), now=NOW)
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    assert patch["spec"]["affinity"] == {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}
    assert patch["spec"]["schedulingGates"] == []
    annotations = {
        "phalanx.dev/released": NOW,
        "phalanx.dev/release-begun": NOW,
        "phalanx.dev/pinned-in": "affinity",
    }
    assert patch["metadata"] == {"resourceVersion": "1", "uid": "uid-a", "annotations": annotations}


def test_a_release_removes_what_a_copied_manifest_says_of_another_gang() -> None:
    copied = pod("a", nominated="n1")
    copied.metadata.annotations.update({"phalanx.dev/whole": "2", "phalanx.dev/release-begun": "2020-01-01T00:00:00Z"})
    annotations = release_patch(copied, node("n1"), domain=(), now=NOW)["metadata"]["annotations"]
    assert annotations["phalanx.dev/whole"] is None
    assert annotations["phalanx.dev/release-begun"] == NOW


def test_a_domain_goes_into_match_expressions_one_for_each_level() -> None:
    patch = release_patch(pod("a"), node("n1"), domain=((RACK, "r1"),), now=NOW)
    term = {"matchExpressions": [{"key": RACK, "operator": "In", "values": ["r1"]}]}
    assert patch["spec"]["affinity"] == {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}


@pytest.mark.parametrize(
    ("labels", "selector"), [((), {"kubernetes.io/hostname": "n1"}), (((RACK, "r1"),), {RACK: "r1"})]
)
def test_beside_a_users_own_required_affinity_the_pin_is_a_node_selector(labels: Any, selector: dict[str, str]) -> None:
    patch = release_patch(pod("a", affinity=USERS_OWN), node("n1"), domain=labels, now=NOW)
    assert patch["spec"]["nodeSelector"] == selector
    assert "affinity" not in patch["spec"]


def pinned_at_create(**more: Any) -> Any:
    """A gated member that carries the rack of its siblings since its CREATE."""
    term = NodeSelectorTerm(match_expressions=(Requirement(key=RACK, operator="In", values=("r1",)),))
    own = Affinity(node_affinity=NodeAffinity(required=NodeSelector(node_selector_terms=(term,))))
    made = pod("a", nominated="n1", affinity=own, **more)
    made.metadata.annotations[PINNED_DOMAIN] = f"{RACK}=r1"
    return made


@pytest.mark.parametrize(
    ("labels", "added"),
    [
        ((), {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}),
        (((RACK, "r1"),), {}),
        (((RACK, "r1"), ("pool", "a")), {"more": [{"key": "pool", "operator": "In", "values": ["a"]}]}),
    ],
    ids=["the exact node", "the same domain", "the domain and a flavor"],
)
def test_what_was_written_at_create_is_only_added_to(labels: Any, added: dict[str, Any]) -> None:
    patch = release_patch(pinned_at_create(), node("n1"), domain=labels, now=NOW)
    rack = {"key": RACK, "operator": "In", "values": ["r1"]}
    term = {"matchExpressions": [rack, *added.pop("more", [])], **added}
    assert patch["spec"]["affinity"] == {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}
    assert "nodeSelector" not in patch["spec"]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (((RACK, "r1"),), {"matchExpressions": [{"key": RACK, "operator": "In", "values": ["r1"]}]}),
        ((), {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}),
    ],
    ids=["a domain", "the exact node"],
)
def test_a_note_that_the_affinity_does_not_carry_is_not_believed(labels: Any, expected: dict[str, Any]) -> None:
    made = pod("a", nominated="n1")
    made.metadata.annotations[PINNED_DOMAIN] = f"{RACK}=r2"
    affinity = release_patch(made, node("n1"), domain=labels, now=NOW)["spec"]["affinity"]
    assert affinity == {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [expected]}}}


def test_a_note_beside_a_users_own_affinity_adds_nothing() -> None:
    made = pod("a", nominated="n1", affinity=USERS_OWN)
    made.metadata.annotations[PINNED_DOMAIN] = f"{RACK}=r2"
    spec = release_patch(made, node("n1"), domain=(), now=NOW)["spec"]
    assert spec["nodeSelector"] == {"kubernetes.io/hostname": "n1"}


def test_gates_of_others_stay() -> None:
    gated = pod("a")
    both = gated.spec.scheduling_gates[0].__class__(name="example.com/other")
    spec = gated.spec.__class__(scheduling_gates=(*gated.spec.scheduling_gates, both))
    patch = release_patch(gated.__class__(metadata=gated.metadata, spec=spec), node("n1"), domain=(), now=NOW)
    assert patch["spec"]["schedulingGates"] == [{"name": "example.com/other"}]


def test_a_domain_without_a_label_cannot_be_selected() -> None:
    bare = node("n1").__class__(metadata=node("n1").metadata.__class__(name="n1"))
    assert domain_labels(TOPOLOGY, bare, 1) is None
