"""Gangs with devices: held as a whole, no device twice, nothing left over (docs/decisions/0045).

n1, n2: rack r1, n3: rack r2; each 4 cpu and two devices.
"""

from collections.abc import Iterator

import pytest

from simulation.choices import Choices
from simulation.directed import TWO_RACKS, Director, is_nominated
from simulation.models.devices import Allocator, claim_path, devices_of
from simulation.network import Process
from simulation.objects import name_of
from simulation.schedule import simulating
from simulation.users import ONE_DEVICE
from simulation.world import PODS_PATH, World


@pytest.fixture(autouse=True)
def simulated() -> Iterator[None]:
    """No real time, and plans within this process."""
    with simulating():
        yield


def with_devices(controllers: int = 2, *, shared: bool = False) -> World:
    """A furnished world with devices, without latencies or faults.

    `shared`: each node has one device, which two claims can share.
    """
    world = World(0, frozenset())
    world.furnish(TWO_RACKS, devices_of_node=1 if shared else 2, shared_devices=shared)
    world.start(*(f"c{number}" for number in range(1, controllers + 1)))
    world.run(1.0)
    return world


def submit(world: World, name: str, members: int, priority: str = "") -> None:
    """Create a gang each of whose members needs a device."""
    world.gang(name, members)
    for index in range(members):
        world.pod(f"{name}-{index}", name, cpu=1, priority=priority, resourceClaims=[ONE_DEVICE])


def held(world: World, prefix: str) -> int:
    """Return how many devices the claims have whose names begin so."""
    claims = (each for (kind, *_), each in world.api.store.objects.items() if kind.plural == "resourceclaims")
    return sum(len(devices_of(each)) for each in claims if each["metadata"]["name"].startswith(prefix))


def rules(world: World) -> list[str]:
    """Return the names of all DeviceTaintRules."""
    return [name for (kind, _, name) in world.api.store.objects if kind.plural == "devicetaintrules"]


def check(world: World) -> None:
    """Fail if an invariant is broken, now or at the end of the schedule."""
    world.run(40.0)
    world.invariants.at_end()
    assert world.invariants.violations == [], "\n".join(world.trace)


@pytest.mark.parametrize("shared", [False, True], ids=["whole devices", "shares"])
def test_a_gang_gets_its_devices_before_it_is_released_and_frees_them_with_its_pods(*, shared: bool) -> None:
    world = with_devices(shared=shared)
    submit(world, "g", 4)
    assert world.run_until(lambda: len(Director(world).bound("g")) == 4, 5.0), "\n".join(world.trace)
    assert world.counts["releases of members with devices"] == 4
    world.invariants.disturbed()
    for index in range(4):
        world.ask("DELETE", f"{PODS_PATH}/g-{index}")
    world.run(10.0)
    assert held(world, "g-") == 0
    check(world)


@pytest.mark.parametrize("shared", [False, True], ids=["whole devices", "shares"])
@pytest.mark.parametrize("number", range(1, 9))
def test_a_leader_that_dies_while_it_takes_devices_leaves_nothing_over(number: int, *, shared: bool) -> None:
    """`number`: after which write about rules and claims."""
    world, seen = with_devices(shared=shared), list[str]()

    def die(process: Process, request: object) -> None:
        if "resource.k8s.io" in str(request) and process.alive:
            seen.append(str(request))
            if len(seen) == number:
                world.invariants.disturbed()
                process.end()

    world.network.after_write = die
    submit(world, "g", 2)
    world.pod("rival", cpu=1, resourceClaims=[ONE_DEVICE])
    assert world.run_until(lambda: len(Director(world).bound("g")) == 2, 25.0), "\n".join(world.trace)
    assert len(seen) >= number
    check(world)
    assert rules(world) == []


@pytest.mark.parametrize("shared", [False, True], ids=["whole devices", "shares"])
def test_no_device_is_doubled_if_the_scheduler_writes_its_choice_late(*, shared: bool) -> None:
    """The scheduler has chosen a device in memory, and writes it while the gang takes devices of the same node."""
    world = with_devices(shared=shared)
    world.scheduler.bind_weights = (0, 0, 1)
    world.scheduler.choices = Choices(0)
    for index in range(3):
        world.pod(f"rival-{index}", cpu=1, resourceClaims=[ONE_DEVICE])
    submit(world, "g", 2)
    world.run(10.0)
    assert held(world, "rival-") == 3
    check(world)


def test_a_gang_is_not_planned_on_shared_devices_whose_capacity_is_used_up() -> None:
    """Two claims share the device of each node, so six pods use all three devices."""
    world = with_devices(1, shared=True)
    director, nominated = Director(world), list[str]()
    submit(world, "g", 4)
    submit(world, "h", 2)
    assert world.run_until(lambda: len(director.bound("g")) + len(director.bound("h")) == 6, 10.0)
    director.when(is_nominated("late"), lambda: nominated.append("late"))
    submit(world, "late", 2)
    world.run(10.0)
    assert nominated == [], "\n".join(world.trace)
    assert held(world, "late-") == 0
    world.ask("DELETE", f"{PODS_PATH}/h-0")
    world.ask("DELETE", f"{PODS_PATH}/h-1")
    assert world.run_until(lambda: len(director.bound("late")) == 2, 20.0), "\n".join(world.trace)


def test_a_gang_and_a_nominated_pod_do_not_wait_for_each_other() -> None:
    """The rules of the gang keep the pod from devices, and the gang waits for the pod, which the scheduler may be about
    to bind.
    """
    world = with_devices(1)
    director = Director(world)
    world.pod("low", priority="low", nodeName="n1", cpu=4)
    world.pod("full", priority="high", nodeName="n2", cpu=4)
    world.pod("other", priority="high", nodeName="n3", cpu=4)
    world.run(1.0)
    world.ask("PATCH", f"{PODS_PATH}/low", {"metadata": {"annotations": {"simulation/slow": "true"}}})
    director.when(is_nominated("g"), lambda: rival(world))
    submit(world, "g", 2, "middle")
    assert world.run_until(lambda: world.get("rival"), 5.0), "\n".join(world.trace)
    world.run(45.0)
    bound = {name_of(each) for each in world.pods() if each["spec"].get("nodeName")}
    assert {"default/rival", "default/g-0", "default/g-1"} & bound, "\n".join(world.trace)


def rival(world: World) -> None:
    """Create a pod of no gang that needs a device, and whose priority is high."""
    world.pod("rival", priority="high", cpu=1, resourceClaims=[ONE_DEVICE])


def test_the_allocator_does_not_count_how_often_a_device_is_taken() -> None:
    """If one of two claims on a device is freed, the device is free for the scheduler (`allocateddevices.go`)."""
    world = with_devices(1)
    world.scheduler.paused = True
    for name in ("a", "b", "c"):
        world.pod(name, cpu=1, resourceClaims=[ONE_DEVICE])
    world.run(1.0)
    allocator = world.scheduler.allocator
    assert isinstance(allocator, Allocator)
    names = {name: next(each for each in claims(world) if each.startswith(f"default/{name}-")) for name in "abc"}
    results = [{"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}]
    for name in ("a", "b"):
        status = {"status": {"allocation": {"devices": {"results": results}}}}
        world.ask("PATCH", claim_path(names[name], "status"), status)
    world.run(1.0)
    node, pod = world.api.ask("GET", "/api/v1/nodes/n1"), world.get("c")
    assert pod is not None
    assert allocator.choose(pod, node) == {names["c"]: (("gpu", ("n1", "gpu-1")),)}
    world.ask("PATCH", claim_path(names["a"], "status"), {"status": {"allocation": None}})
    world.run(1.0)
    assert allocator.choose(pod, node) == {names["c"]: (("gpu", ("n1", "gpu-0")),)}
    assert any("gpu-0 belongs to" in each for each in world.invariants.violations)


def test_the_allocator_adds_up_what_claims_consume_of_a_shared_device() -> None:
    """If one of two claims beyond the capacity is freed, only what it has consumed is free for the scheduler."""
    world = with_devices(1, shared=True)
    world.scheduler.paused = True
    for name in ("a", "b", "c"):
        world.pod(name, cpu=1, resourceClaims=[ONE_DEVICE])
    world.run(1.0)
    allocator = world.scheduler.allocator
    assert isinstance(allocator, Allocator)
    names = {name: next(each for each in claims(world) if each.startswith(f"default/{name}-")) for name in "abc"}
    for name, memory in (("a", "6"), ("b", "5")):
        share = {"shareID": name, "consumedCapacity": {"memory": memory}}
        results = [{"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0", **share}]
        status = {"status": {"allocation": {"devices": {"results": results}}}}
        world.ask("PATCH", claim_path(names[name], "status"), status)
    world.run(1.0)
    node, pod = world.api.ask("GET", "/api/v1/nodes/n1"), world.get("c")
    assert pod is not None
    assert allocator.choose(pod, node) is None
    assert world.invariants.violations == ["(v) claims consume 11 of 8 of device n1/gpu-0"]
    world.ask("PATCH", claim_path(names["b"], "status"), {"status": {"allocation": None}})
    world.run(1.0)
    assert allocator.choose(pod, node) is None
    world.ask("PATCH", claim_path(names["a"], "status"), {"status": {"allocation": None}})
    world.run(1.0)
    assert allocator.choose(pod, node) == {names["c"]: (("gpu", ("n1", "gpu-0")),)}


def claims(world: World) -> list[str]:
    """Return all claims as `namespace/name`."""
    return [name_of(each) for (kind, *_), each in world.api.store.objects.items() if kind.plural == "resourceclaims"]
