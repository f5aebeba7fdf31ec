"""The controller's requests for one gang, from its creation until it runs: most of a gang's CPU cost."""

from collections import Counter
from collections.abc import Iterator

import pytest

from simulation.directed import Director
from simulation.models.jobs import JOBS_PATH, job
from simulation.network import Sent
from simulation.schedule import simulating
from simulation.world import World

_SIZE = 8
_BURST_SECONDS = 3.0
"""Longer than `controller.times.BURST_SECONDS`, with the pause until the next reconcile."""


@pytest.fixture(autouse=True)
def simulated() -> Iterator[None]:
    """No real time, and plans within this process."""
    with simulating():
        yield


def furnished() -> World:
    """A world of one rack with capacity for one gang, whose controller has started."""
    world = World(0, frozenset())
    world.furnish({f"n{number}": ("r1", 4) for number in range(_SIZE)})
    world.start("c1")
    world.run(5.0)
    return world


def counted(world: World) -> Counter[str]:
    """Return a counter of the controller's requests for objects of users, by method and resource, from now on."""
    requests, noted = Counter[str](), world.network.on_sent

    def count(sent: Sent) -> None:
        noted(sent)
        _, _, place = sent.request.path.partition("/namespaces/default/")
        if place:
            resource, _, rest = place.partition("/")
            _, _, sub_resource = rest.partition("/")
            requests[f"{sent.request.method} {'/'.join(filter(None, (resource, sub_resource)))}"] += 1

    world.network.on_sent = count
    return requests


def test_a_gang_that_fits_at_once_costs_27_requests() -> None:
    """Two for each pod, two marks that the gang was whole, the Gang object with two statuses, and six events.

    There is no status and no event for the moment in which the members are created, and none for reserved capacity
    between the plan and the release.
    """
    world = furnished()
    requests = counted(world)
    world.ask("POST", JOBS_PATH, job("j", _SIZE))
    assert world.run_until(lambda: len(Director(world).bound("j")) == _SIZE, 10.0)
    world.run(_BURST_SECONDS)
    assert world.status_of("j")["phase"] == "Placed"
    assert dict(requests) == {
        "PATCH pods/status": _SIZE,
        "PATCH pods": _SIZE + 2,
        "POST gangs": 1,
        "PATCH gangs/status": 2,
        "POST events": 6,
    }
    assert world.invariants.violations == []


def test_a_gang_that_lacks_a_member_is_reported_when_no_more_arrive() -> None:
    world = furnished()
    requests = counted(world)
    world.gang("g", 3)
    for index in range(2):
        world.pod(f"g-{index}", "g")
        world.run(0.5)
    assert world.status_of("g") == {}
    assert requests["POST events"] == 0
    world.run(_BURST_SECONDS)
    assert world.status_of("g")["message"] == "waits for 1 more pod: 2 of 3 exist"
    assert requests["POST events"] > 0
    world.pod("g-2", "g")
    assert world.run_until(lambda: len(Director(world).bound("g")) == 3, 5.0)
    assert world.invariants.violations == []


def test_a_gang_whose_members_arrive_one_by_one_is_reported_meanwhile() -> None:
    """Otherwise a gang that gets a member each second would never be reported."""
    world = furnished()
    world.gang("g", 40)
    for index in range(12):
        world.pod(f"g-{index}", "g", cpu=1)
        world.run(1.0)
    assert "of 40 exist" in world.status_of("g")["message"]
    assert world.invariants.violations == []
