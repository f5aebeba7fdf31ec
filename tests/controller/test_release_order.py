"""The order in which members are released: the rest of an interrupted release must be the easiest to place again.

r1: n1, n2      r2: n3      each node has 4 cpu
"""

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest
from protocol_scenes import gang, pod, snapshot

from controller.release.next_step import Planned
from controller.release.patches import in_order
from gangs.model import Gang, Member, PodSet
from kube.objects import Pod


def tied(name: str) -> Pod:
    """Return a pod that fits on some nodes only."""
    made = pod(name, cpu="1")
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, node_selector={"disk": "fast"}))


def order(of: Gang) -> list[str]:
    members = [Planned(member.pod, "n1") for member in of.members if not member.pod.bound]
    return [each.pod.metadata.name for each in in_order(members, of, snapshot())]


def sets(of: Gang, *counts: tuple[str, int]) -> Gang:
    """Return the gang with its members in sets of two, each with this minimum."""
    names = [name for name, _ in counts for _ in range(2)]
    members = tuple(Member(each.pod, name, None) for each, name in zip(of.members, names, strict=True))
    pod_sets = tuple(PodSet(name, 2, least) for name, least in counts)
    return replace(of, members=members, pod_sets=pod_sets, min_member=sum(least for _, least in counts))


ORDERS: dict[str, tuple[Sequence[Pod], int, str]] = {
    "those that are alike, in their order": ([pod("a"), pod("b"), pod("c")], 3, "a b c"),
    "those that ask for more first": ([pod("a", cpu="1"), pod("b", cpu="3"), pod("c", cpu="2")], 3, "b c a"),
    "those that may go anywhere last": ([pod("a", cpu="4"), tied("b")], 2, "b a"),
    "members beyond the minimum last": ([pod("a", cpu="1"), pod("b", cpu="2"), pod("c", cpu="4")], 2, "b a c"),
    "who runs already counts for the minimum": ([pod("a", cpu="1"), pod("b"), pod("c", bound="n2")], 2, "a b"),
}


@pytest.mark.parametrize(("pods", "least", "expected"), ORDERS.values(), ids=ORDERS)
def test_the_easiest_come_last(pods: Sequence[Pod], least: int, expected: str) -> None:
    of = gang(*pods)
    of = replace(of, min_member=least, pod_sets=(PodSet("main", len(pods), least),))
    assert order(of) == expected.split()


def test_each_set_has_its_own_minimum() -> None:
    of = sets(gang(pod("a"), pod("b"), pod("c"), pod("d")), ("lead", 1), ("work", 2))
    assert order(of) == ["a", "c", "d", "b"]


def test_a_minimum_of_the_whole_gang_takes_the_first_of_those_beyond_the_sets() -> None:
    of = replace(sets(gang(pod("a"), pod("b"), pod("c"), pod("d")), ("lead", 1), ("work", 1)), min_member=3)
    assert order(of) == ["a", "b", "c", "d"]
