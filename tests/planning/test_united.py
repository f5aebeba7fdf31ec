"""Several gangs are stated as one only where one gang can ask for what each of them does."""

from dataclasses import replace

import msgspec
import pytest

from gangs.model import Gang, GangKey, Member, MultipleRule, ObjectRef, PodSet
from kube.objects import ObjectMeta, Pod, PodSpec
from planning.competing.united import united


def gang(name: str) -> Gang:
    """Of one pod."""
    pod = Pod(metadata=ObjectMeta(name=f"{name}-0", namespace="default"), spec=PodSpec())
    source = ObjectRef("phalanx.dev/v1alpha1", "Gang", "default", name)
    key = GangKey("phalanx", "default", name)
    return Gang(key, source, (Member(pod, "main", 0),), (PodSet("main", 1, 1),), expected=1, min_member=1)


def never_evicting(made: Gang) -> Gang:
    (member,) = made.members
    spec = msgspec.structs.replace(member.pod.spec, preemption_policy="Never")
    return replace(made, members=(replace(member, pod=msgspec.structs.replace(member.pod, spec=spec)),))


def test_gangs_become_sets_of_one() -> None:
    whole = united([replace(gang("a"), required="rack"), gang("b")])
    assert whole is not None
    assert [each.name for each in whole.gang.pod_sets] == ["0/main", "1/main"]
    assert [(rule.pod_sets, rule.level) for rule in whole.gang.together] == [(("0/main",), "rack")]
    assert (whole.gang.min_member, whole.gang.required) == (2, None)


@pytest.mark.parametrize(
    "other",
    [
        replace(gang("b"), topology="another"),
        replace(gang("b"), topology_kind="ClusterNetworkTopology"),
        replace(gang("b"), key=GangKey("kueue", "default", "b")),
        replace(gang("b"), near=("n1",)),
        replace(gang("b"), preempts=False),
        never_evicting(gang("b")),
        replace(gang("b"), multiples=(MultipleRule("rack", 2),)),
        replace(gang("b"), succeeded=1),
    ],
    ids=["topology", "kind of topology", "dialect", "near", "preempts", "preemption policy", "multiples", "succeeded"],
)
def test_what_one_gang_cannot_say_is_not_said(other: Gang) -> None:
    assert united([gang("a"), other]) is None
