"""A cached rejection holds for all gangs of one demand class and for no other gang. Only one of them is planned.

r1: n1, n2      r2: n3      each node holds one pod of 4 cpu; a gang of three fits in no rack
"""

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest
from planning_bench import Bench, members, named, picture
from protocol_scenes import pod

from controller.scheduling import rejections
from gangs.model import Gang, GangKey
from kube.keys import PINNED_IN
from kube.objects import Affinity, PodAffinity, PodAffinityTerm, Toleration
from planning.decision import Outcome

NO = Outcome.UNPLACEABLE


@pytest.fixture
def bench() -> Bench:
    """A planner whose clock also counts the time of solves."""
    return Bench()


def of_three(name: str, namespace: str = "default") -> Gang:
    return named(name, *members(name, 3), namespace=namespace)


def with_spec(gang: Gang, **fields: object) -> Gang:
    """Return the gang with these fields changed in the spec of its last pod."""
    *others, last = gang.members
    spec = msgspec.structs.replace(last.pod.spec, **fields)
    return replace(gang, members=(*others, replace(last, pod=msgspec.structs.replace(last.pod, spec=spec))))


def with_metadata(gang: Gang, **fields: object) -> Gang:
    """Return the gang with these fields changed in the metadata of its last pod."""
    *others, last = gang.members
    metadata = msgspec.structs.replace(last.pod.metadata, **fields)
    return replace(gang, members=(*others, replace(last, pod=msgspec.structs.replace(last.pod, metadata=metadata))))


def test_one_is_planned_and_all_who_ask_for_the_same_are_told(bench: Bench) -> None:
    crowd = [of_three(f"g{number}") for number in range(50)]
    bench.round(*crowd)
    bench.fast.run()
    assert set(bench.round(*crowd).values()) == {NO}
    assert not bench.fast.works
    told = [answer for answer in bench.last.values() if answer is not None]
    assert len({answer.message for answer in told}) == 1
    assert [answer.gang for answer in told] == crowd
    late = of_three("late")
    assert bench.round(*crowd, late)["late"] is NO, "in the round in which it comes"


def test_who_comes_to_a_cluster_with_more_room_is_planned(bench: Bench) -> None:
    full = [pod("x", bound="n1")]
    first, second = (named(name, *members(name, 2)) for name in ("a-gang", "b-gang"))
    bench.round(first, on=picture(*full))
    bench.fast.run()
    assert bench.round(first, on=picture(*full))["a-gang"] is NO
    bench.round(first, second, on=picture(version="2"))
    bench.fast.run()
    assert Outcome.PLACED in bench.round(first, second, on=picture(version="2")).values()


UNLIKE: dict[str, Callable[[Gang], Gang]] = {
    "of another namespace": lambda gang: of_three(gang.key.name, "elsewhere"),
    "of more pods": lambda gang: named(gang.key.name, *members(gang.key.name, 4)),
    "of another priority": lambda gang: named(gang.key.name, *members(gang.key.name, 3, priority=11)),
    "that tolerates more": lambda gang: with_spec(gang, tolerations=(Toleration(operator="Exists"),)),
    "tied to a claim": lambda gang: with_spec(
        gang, volumes=({"name": "v", "persistentVolumeClaim": {"claimName": "c"}},)
    ),
    "tied to a node": lambda gang: with_metadata(gang, annotations={PINNED_IN: "n1"}),
    "of other levels": lambda gang: replace(gang, required=None, preferred="rack"),
    "that may not preempt": lambda gang: replace(gang, preempts=False),
}


@pytest.mark.parametrize("what", UNLIKE)
def test_one_that_asks_for_something_else_is_planned_itself(bench: Bench, what: str) -> None:
    first, other = of_three("a-gang"), UNLIKE[what](of_three("b-gang"))
    bench.round(first)
    bench.fast.run()
    answers = bench.round(first, other)
    assert answers["a-gang"] is NO
    assert answers["b-gang"] is not NO, "nobody tells it what the other was told"


def test_volumes_that_every_pod_has_under_another_name_make_no_difference(bench: Bench) -> None:
    crowd = [with_spec(of_three(name), volumes=({"name": f"token-{name}", "projected": {}},)) for name in ("a1", "b1")]
    bench.round(*crowd)
    bench.fast.run()
    assert set(bench.round(*crowd).values()) == {NO}


def test_labels_count_where_somebody_keeps_others_off(bench: Bench) -> None:
    term = PodAffinityTerm(topology_key="kubernetes.io/hostname")
    shy = pod("shy", bound="n3")
    affinity = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
    shy = msgspec.structs.replace(shy, spec=msgspec.structs.replace(shy.spec, affinity=affinity))
    crowd = [with_metadata(of_three(name), labels={"app": name}) for name in ("a1", "b1")]
    for there, told in (([], True), ([shy], False)):
        bench = Bench()
        bench.round(*crowd, on=picture(*there))
        bench.fast.run()
        answers = bench.round(*crowd, on=picture(*there))
        assert (list(answers.values()).count(NO) == len(crowd)) is told


def test_what_is_compared_in_one_round_is_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rejections, "MOST_MEMBERS", 9)
    crowd = [of_three(f"g{number}") for number in range(9)]
    bench.round(*crowd)
    bench.fast.run()
    assert 1 < list(bench.round(*crowd).values()).count(NO) < len(crowd)
    bench.round(*crowd)
    bench.fast.run()  # plans the gangs that were not compared
    assert set(bench.round(*crowd).values()) == {NO}


def test_one_that_names_its_gang_is_told_to_that_alone(bench: Bench) -> None:
    """The rack is called as the gang is."""
    crowd = [of_three("r1"), of_three("b1")]
    bench.round(*crowd)
    bench.fast.run()
    answers = bench.round(*crowd)
    told = bench.last[GangKey("phalanx", "default", "r1")]
    assert told is not None
    assert "r1 fits" in told.message
    assert answers == {"r1": NO, "b1": None}
