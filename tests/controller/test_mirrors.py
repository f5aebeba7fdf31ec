"""Gang objects for gangs of other dialects.

PodGroup default/llm  ──►  Gang default/llm          (owner: the PodGroup)
Gang default/llm      ──►  itself, no mirror
PodGroup default/llm beside a user's Gang default/llm  ──►  Gang default/podgroup-llm
"""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from gang_builders import POD_GROUP, gang, pod

from controller.reconcile_state import ReconcileState
from controller.release.next_step import AllBound
from controller.status.mirrors import (
    GangObjects,
    Unmarked,
    differs,
    is_mirrored,
    mirror_name,
    mirror_of,
    namespaced_name_of,
    stale_mirrors,
)
from gangs.manifests import key_of
from gangs.mirrors import claim_of, is_marked, mirrored_key
from gangs.model import CapRule, Gang, GangKey, Manifest, MultipleRule, ObjectRef, PodSet, SliceRule, TogetherRule
from gangs.phalanx.spec import GangSpec
from kube.catalog import Catalog
from kube.objects import NodeAffinity, NodeSelector, NodeSelectorTerm, Requirement

JOB = ObjectRef("batch/v1", "Job", "default", "llm", "uid-job")
POD = ObjectRef("v1", "Pod", "default", "llm-0", "uid-llm-0")
OWN = ObjectRef("phalanx.dev/v1alpha1", "Gang", "default", "llm", "uid-own")
USERS = {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": {"name": "llm", "namespace": "default"}}


def existing(*manifests: Manifest) -> GangObjects:
    return GangObjects(Catalog({key_of(each): each for each in manifests}))


def marked(manifest: Manifest) -> dict[str, Any]:
    """Return a mirror with the status that the controller has written."""
    return {**manifest, "status": {"mirrors": claim_of(manifest)}}


def mirror(of: Gang, *others: Manifest) -> dict[str, Any]:
    return mirror_of(of, mirror_name(of, existing(*others)))


@pytest.mark.parametrize(("source", "mirrored"), [(POD_GROUP, True), (JOB, True), (POD, True), (OWN, False)])
def test_every_gang_but_our_own_objects_is_mirrored(*, source: ObjectRef, mirrored: bool) -> None:
    assert is_mirrored(gang(source=source)) is mirrored


def test_a_mirror_is_named_like_its_source_and_owned_by_it() -> None:
    made = mirror(gang(pod("a"), pod("b"), required="SpineLayer", schedule_timeout_seconds=600))
    assert made == {
        "apiVersion": "phalanx.dev/v1alpha1",
        "kind": "Gang",
        "metadata": {
            "name": "llm",
            "namespace": "default",
            "labels": {"phalanx.dev/dialect": "koordinator"},
            "annotations": {"phalanx.dev/mirrors": "koordinator/default/llm"},
            "ownerReferences": [
                {
                    "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
                    "kind": "PodGroup",
                    "name": "llm",
                    "uid": "uid-group",
                    "controller": True,
                    "blockOwnerDeletion": False,
                }
            ],
        },
        "spec": {
            "minMember": 2,
            "required": "SpineLayer",
            "scheduleTimeoutSeconds": 600,
            "onFailure": "Wait",
            "podSets": [{"name": "main", "count": 2, "minCount": 2}],
        },
    }


def of_every_wish() -> Gang:
    """Two sets and every rule that there is."""
    term = NodeSelectorTerm(match_expressions=(Requirement(key="gpu", operator="In", values=("h100",)),))
    affinity = NodeAffinity(required=NodeSelector(node_selector_terms=(term,)))
    sets = (
        PodSet("prefill", 4, 4, "rack", "block", (SliceRule("rack", 2),), (MultipleRule("rack", 2),)),
        PodSet("decode", 4, 2, max_per_domain=(CapRule("rack", 3),)),
    )
    together = (TogetherRule(("prefill", "decode"), "block"),)
    return gang(
        pod_sets=sets,
        topology="dc",
        queue="team-a",
        node_affinity=affinity,
        together=together,
        preferred="rack",
        multiples=(MultipleRule("block", 4),),
        preempts=False,
    )


def test_a_mirror_is_what_the_api_server_gives_back() -> None:
    """Otherwise the mirror is written again in every round, and a mirror without a mark is created twice."""
    wanted = mirror(of_every_wish())
    stored = msgspec.json.decode(msgspec.json.encode(wanted))
    assert not differs(stored, wanted)
    assert mirror_name(of_every_wish(), existing(stored)) == ("default", "llm")


@pytest.mark.parametrize(("uid", "expected"), [("uid-made", "llm"), ("uid-of-another", "podgroup-llm")])
def test_a_mirror_made_a_moment_ago_stays_the_gangs_own_though_the_gang_has_changed(uid: str, expected: str) -> None:
    """The mirror has no mark yet, and its PodGroup was recreated. The controller that created it knows its uid."""
    made = mirror(gang(pod("a"), source=replace(POD_GROUP, uid="uid-before")))
    made["metadata"]["uid"] = "uid-made"
    now = gang(pod("a"), pod("b"), required="BlockLayer")
    there = GangObjects(Catalog({key_of(made): made}), {now.key: Unmarked(("default", "llm"), uid)})
    assert mirror_name(now, there) == ("default", expected)


def test_the_spec_of_a_mirror_says_everything_that_the_gang_asks_for() -> None:
    of = of_every_wish()
    spec = msgspec.convert(mirror(of)["spec"], GangSpec)
    assert (spec.topology, spec.queue, spec.preferred) == ("dc", "team-a", "rack")
    assert spec.node_affinity
    assert spec.node_affinity.value() == of.node_affinity
    assert spec.pod_sets
    prefill, decode = spec.pod_sets
    assert prefill.slices
    assert prefill.multiples
    assert decode.max_per_domain
    assert spec.together
    assert spec.multiples
    assert [(each.name, each.count, each.min_count) for each in spec.pod_sets] == [("prefill", 4, 4), ("decode", 4, 2)]
    assert (prefill.slices[0].size, prefill.multiples[0].of) == (2, 2)
    assert (prefill.required, prefill.preferred) == ("rack", "block")
    assert decode.max_per_domain[0].count == 3
    assert spec.together[0].pod_sets == ("prefill", "decode")
    assert [(each.level, each.of) for each in spec.multiples] == [("block", 4)]
    assert spec.preempts is False


def forged(namespace: str = "default", name: str = "llm") -> dict[str, Any]:
    """A Gang of a user that claims to show another gang."""
    metadata = {"name": name, "namespace": namespace, "annotations": {"phalanx.dev/mirrors": "koordinator/default/llm"}}
    return {**USERS, "metadata": metadata, "spec": {"minMember": 7}}


NAMES = [
    # source, name of the gang, what exists, name of the mirror
    (POD_GROUP, "llm", [], "llm"),
    (POD_GROUP, "llm", [USERS], "podgroup-llm"),
    (JOB, "llm", [USERS], "job-llm"),
    (JOB, "llm", [marked(mirror_of(gang(), ("default", "llm")))], "job-llm"),
    (POD_GROUP, "llm", [marked(mirror_of(gang(), ("default", "llm")))], "llm"),
    (POD_GROUP, "llm", [mirror_of(gang(), ("default", "llm"))], "llm"),  # made a moment ago, before a controller died
    (POD_GROUP, "llm", [mirror_of(gang(required="BlockLayer"), ("default", "llm"))], "llm"),  # and the gang has changed
    (
        POD_GROUP,
        "llm",
        [mirror_of(gang(source=POD, name="llm"), ("default", "llm"))],
        "llm",
    ),  # its group was not known yet
    (JOB, "llm", [mirror_of(gang(), ("default", "llm"))], "job-llm"),  # its owner is another object
    (POD_GROUP, "llm", [forged()], "podgroup-llm"),
    (POD_GROUP, "llm", [{**forged(), "status": {"phase": "Placed"}}], "podgroup-llm"),
    (POD_GROUP, "llm", [marked(mirror_of(gang(), ("default", "podgroup-llm")))], "podgroup-llm"),
    (POD_GROUP, "llm", [USERS, mirror_of(gang(source=JOB), ("default", "podgroup-llm"))], "podgroup-llm-2"),
    (POD, "llm", [], "llm"),
    (POD, "My_Gang.v2", [], "my-gang.v2"),
    (POD, "___", [], "gang"),
    (POD, "llm", [USERS], "pod-llm"),
]


@pytest.mark.parametrize(("source", "name", "others", "expected"), NAMES)
def test_a_mirror_keeps_its_name_and_takes_nobody_elses(
    source: ObjectRef, name: str, others: list[Manifest], expected: str
) -> None:
    assert mirror_name(gang(source=source, name=name), existing(*others)) == ("default", expected)


def test_a_gang_declared_on_pods_alone_has_no_owner() -> None:
    assert "ownerReferences" not in mirror(gang(source=POD))["metadata"]


def test_a_mirror_tells_whose_it_is_and_a_users_gang_does_not() -> None:
    assert mirrored_key(mirror(gang())) == GangKey("koordinator", "default", "llm")
    assert mirrored_key(USERS) is None


FIRST = ObjectRef("scheduling.sigs.k8s.io/v1alpha1", "PodGroup", "a", "llm", "uid-first")
SECOND = ObjectRef("scheduling.sigs.k8s.io/v1alpha1", "PodGroup", "b", "llm", "uid-second")
GROUP = GangKey("koordinator", "a", "llm")
"""A group of a/llm and b/llm: its name is the first one's, whether or not that one is there."""


def over_namespaces(source: ObjectRef) -> Gang:
    return replace(gang(source=source), key=GROUP)


def test_the_mirror_of_a_group_over_namespaces_is_beside_the_first_that_is_there() -> None:
    made = mirror(over_namespaces(SECOND))
    assert namespaced_name_of(made) == ("b", "llm")
    assert mirrored_key(marked(made)) == GROUP


def test_its_status_is_sent_where_its_mirror_is() -> None:
    of = over_namespaces(SECOND)
    case = ReconcileState(of, mirror(of), None, AllBound())
    assert case.path == "/apis/phalanx.dev/v1alpha1/namespaces/b/gangs/llm"


def test_once_the_first_has_come_the_mirror_moves_to_it() -> None:
    before = marked(mirror(over_namespaces(SECOND)))
    now = over_namespaces(FIRST)
    assert mirror_name(now, existing(before)) == ("a", "llm")
    assert stale_mirrors(existing(before, marked(mirror(now))), GROUP, now) == [before]


CHANGES = [
    ("nothing", {}, {}, False),
    ("a label of somebody else", {"labels": {"phalanx.dev/dialect": "koordinator", "team": "a"}}, {}, False),
    ("our label", {"labels": {"phalanx.dev/dialect": "kai"}}, {}, True),
    ("the owner was made anew", {"ownerReferences": []}, {}, True),
    ("the wish", {}, {"required": "BlockLayer"}, True),
]


@pytest.mark.parametrize(("metadata", "spec", "expected"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_a_mirror_is_written_again_only_when_it_says_something_else(
    *, metadata: Manifest, spec: Manifest, expected: bool
) -> None:
    wanted = mirror(gang(pod("a")))
    now = {**wanted, "metadata": {**wanted["metadata"], **metadata}, "spec": {**wanted["spec"], **spec}}
    assert differs(now, wanted) is expected


def test_mirrors_whose_gang_is_gone_are_stale_and_users_gangs_never_are() -> None:
    kept, gone = gang(), gang(source=ObjectRef("x/v1", "PodGroup", "default", "old", "uid-old"))
    objects = existing(
        marked(mirror(kept)), marked(mirror(gone)), {**USERS, "metadata": {"name": "mine", "namespace": "default"}}
    )
    assert stale_mirrors(objects, kept.key, kept) == []
    assert [each["metadata"]["name"] for each in stale_mirrors(objects, gone.key, None)] == ["old"]
    assert stale_mirrors(objects, GangKey("phalanx", "default", "mine"), None) == []


def test_a_mirror_that_got_no_status_before_its_gang_ended_is_stale() -> None:
    """A Job was deleted: for a moment its last pod alone was the gang, and the answer to the mirror's creation came
    after that pod had gone. Only what the controller itself writes counts, in the gang's own namespace.
    """
    last = gang(pod("a"))
    made = mirror(last)
    assert stale_mirrors(existing(made), last.key, None) == [made]
    assert stale_mirrors(existing(made), last.key, last) == []
    assert stale_mirrors(existing(made), last.key, None, kept=True) == []
    elsewhere = {**made, "metadata": {**made["metadata"], "namespace": "other"}}
    unlabelled = {**made, "metadata": {**made["metadata"], "labels": {}}}
    with_status = {**made, "status": {"phase": "Waiting"}}
    assert stale_mirrors(existing(elsewhere, unlabelled), last.key, None) == []
    assert stale_mirrors(existing(with_status), last.key, None) == []


def test_the_mirror_of_a_gang_that_asks_by_an_object_of_its_own_now_is_stale() -> None:
    objects = existing(marked(mirror(gang())))
    own = replace(gang(source=OWN), key=gang().key)
    assert [each["metadata"]["name"] for each in stale_mirrors(objects, own.key, own)] == ["llm"]


def test_the_mirror_of_a_gang_that_cannot_be_read_now_stays() -> None:
    assert stale_mirrors(existing(marked(mirror(gang()))), gang().key, None, kept=True) == []


def test_of_two_mirrors_of_one_gang_only_one_stays() -> None:
    objects = existing(
        *(marked(mirror_of(gang(), ("default", name))) for name in ("llm", "podgroup-llm")),
    )
    stale = stale_mirrors(objects, gang().key, gang())
    assert [each["metadata"]["name"] for each in stale] == ["podgroup-llm"]


@pytest.mark.parametrize("namespace", ["default", "team-a"])
@pytest.mark.parametrize("of", [gang(), None])
def test_what_only_claims_to_be_a_mirror_is_neither_taken_nor_deleted(namespace: str, of: Gang | None) -> None:
    objects = existing(forged(namespace, "prod"), forged(namespace, "llm"))
    assert objects.mirroring(gang().key) == []
    assert stale_mirrors(objects, gang().key, of) == []
    assert mirror_name(gang(), objects) == ("default", "podgroup-llm" if namespace == "default" else "llm")


def test_a_claim_counts_beside_its_gang_at_most() -> None:
    assert mirrored_key(forged("team-a")) is None
    assert mirrored_key(forged("default")) == gang().key
    assert mirrored_key(marked(forged("team-a"))) == gang().key


def test_a_mark_that_says_something_else_is_none() -> None:
    """A user who changes the annotation of a mirror makes it an object of his own."""
    other = {**forged(), "status": {"mirrors": "koordinator/default/other"}}
    assert not is_marked(other)
    assert existing(other).mirroring(gang().key) == []
