"""Groups of several PodGroups that contradict each other, and what may be mended first."""

from typing import Any

from koordinator_objects import SPEC, gather, group
from written import NETWORK, sources

from gangs.dialects.reading import read_all
from gangs.dialects.reviewing import review
from gangs.model import MultipleRule

AT = f"metadata.annotations[{SPEC}]"


BOTH = '["default/a", "default/b"]'
MUST = gather(("SpineLayer", "MustGather"))


def test_the_first_of_two_groups_is_admitted_alone_and_may_be_mended_first() -> None:
    """The older group is corrected first. Otherwise neither group could be changed while both exist."""
    standing = sources(group("a", groups=BOTH), group("b", groups=BOTH, network_topology_spec=MUST), NETWORK)
    for name, each in zip("ab", list(standing.objects.values())[:2], strict=True):
        each["metadata"]["creationTimestamp"] = f"2026-01-0{'ab'.index(name) + 1}T00:00:00Z"
    older = standing.get("scheduling.sigs.k8s.io", "PodGroup", "default", "a")
    assert older is not None
    faults, advice = review(older, standing)
    assert faults == []
    assert [each.text for each in advice] == [
        (
            f"the gang default/a cannot be planned: PodGroup default/b: {AT}: differs from that of PodGroup default/a, "
            "which is in the same group; write the same on all of them"
        )
    ]


def test_multiples_over_several_groups_count_the_pods_of_all() -> None:
    """Two groups of 2 pods are 4, of which no number is a multiple of 3; with a declared total that is a fault."""
    strategy = gather(("SpineLayer", "MustGather", 3))
    written: dict[str, Any] = {"groups": BOTH, "network_topology_spec": strategy}
    advice = "no number of pods from 4 to 4 is a multiple of 3"
    reading = read_all(sources(NETWORK, *(group(name, **written) for name in "ab")))
    assert reading.faults == ()
    assert [each.text for each in reading.advice] == [f"{advice}: the gang needs more pods than its minimum"]
    reading = read_all(sources(NETWORK, *(group(name, total_number="2", **written) for name in "ab")))
    assert [str(each) for each in reading.faults] == [
        f"PodGroup default/a: {AT}.gatherStrategy: {advice}; change minMember, total-number or podCountMultiple"
    ]


def test_multiples_over_several_groups_are_rules_of_the_gang() -> None:
    strategy = gather(("SpineLayer", "MustGather", 2))
    first, second = (group(name, groups=BOTH, network_topology_spec=strategy) for name in "ab")
    (gang,) = read_all(sources(NETWORK, first, second)).gangs
    assert gang.multiples == (MultipleRule("SpineLayer", 2),)
    assert [each.multiples for each in gang.pod_sets] == [(), ()]
