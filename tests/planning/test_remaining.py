"""The capacity left after a gang is equal whether `Remaining` subtracts it or the next gang is framed from scratch."""

from dataclasses import replace
from typing import Any

import pytest
import scenes

from gangs.model import Gang
from planning.after_plan import after
from planning.competing.remaining import Remaining, only_room_matters
from planning.framing.gang_problem import Framing, frame
from planning.framing.priorities import with_priorities
from planning.gang_order import in_order
from planning.messages.outcomes import decided
from solver.multi_gang.joint_problem import Share
from solver.plan import Plan, Proof

CLUSTER = [scenes.topology(), *scenes.nodes()]
PORT = [{"name": "a", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}]
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"x": "y"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}
SPREAD = [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}]


def two(cpu: tuple[Any, Any] = (3, 2), **of_the_second: Any) -> tuple[list[Gang], list[Framing], Any]:
    """Two gangs of two on the same cluster."""
    first = [scenes.gang("a", minMember=2), *scenes.members(2, "a", cpu=cpu[0])]
    second = [scenes.gang("b", minMember=2), *scenes.members(2, "b", cpu=cpu[1], **of_the_second)]
    gangs, snapshot, topologies = scenes.picture(CLUSTER, first, second)
    gangs = in_order(with_priorities(each, snapshot) for each in gangs)
    framings = [frame(each, snapshot, topologies[0], running={}) for each in gangs]
    return gangs, framings, (snapshot, topologies[0])


SHARES = [Share(((0, 0),), ()), Share(((1, 2),), ())]


def test_what_is_left_is_what_stating_the_next_gang_anew_finds() -> None:
    gangs, framings, (snapshot, topology) = two()
    left = Remaining()
    left.take(framings[0], SHARES[0])
    counted = left.framing(framings[1])
    done = decided(gangs[0], framings[0], Plan(((0, 0),), (), (), Proof.FEASIBLE), {}, {})
    anew = frame(gangs[1], after(done, snapshot), topology, running={})
    assert counted is not None
    assert (counted.nodes, counted.units) == (anew.nodes, anew.units)
    assert counted.problem.nodes == anew.problem.nodes
    assert counted.problem.nodes[0].free == (1, 108)
    assert framings[1].problem.nodes[0].free == (4, 110)


def test_what_is_no_multiple_of_the_units_is_not_rounded() -> None:
    _, framings, _ = two(cpu=("300m", 2))
    left = Remaining()
    assert left.framing(framings[1]) is not None
    left.take(framings[0], SHARES[0])
    assert left.framing(framings[1]) is None


@pytest.mark.parametrize(
    ("what", "more", "only_room"),
    [
        ("nothing", {}, True),
        ("host ports", {"containers": PORT}, False),
        ("anti-affinity", {"affinity": APART}, False),
        ("spread", {"topologySpreadConstraints": SPREAD}, False),
    ],
)
def test_who_looks_at_other_pods_is_stated_anew(what: str, more: dict[str, Any], *, only_room: bool) -> None:
    gangs, framings, _ = two(**more)
    assert only_room_matters(gangs, framings) is only_room, what


def test_gangs_on_other_nodes_are_stated_again() -> None:
    gangs, framings, _ = two()
    fewer = framings[1].problem.nodes.at(range(3))
    other = replace(framings[1], problem=replace(framings[1].problem, nodes=fewer))
    assert not only_room_matters(gangs, [framings[0], other])
