"""A scheduler before Kubernetes 1.37, which forgets the nominations of gated pods when it restarts (decision 43).

r1: n1 n2      r2: n3      each node holds one pod of 4 cpu

The leader dies at each of its writes for a gang, or the scheduler restarts there, or both, while rivals of the same
priority wait for every node.
"""

from collections.abc import Callable, Iterator

import pytest
from local_api.server import Request

from simulation.directed import Director, directed, is_release
from simulation.known import unknown
from simulation.models.stateful_sets import STATEFUL_SETS_PATH, stateful_set
from simulation.network import Process
from simulation.objects import is_placeholder, node_of, nominated
from simulation.schedule import run, simulating
from simulation.world import PODS_PATH, World

RESOURCE_QUOTAS_PATH = "/api/v1/namespaces/default/resourcequotas"
RESTART_SECONDS = 1.0
SWAP = 3
"""How many writes replace one placeholder: nominate the member, delete the placeholder, remove the gate."""


@pytest.fixture(autouse=True)
def simulated() -> Iterator[None]:
    """No real time, and plans within this process."""
    with simulating():
        yield


def is_own(request: Request) -> bool:
    """Whether a request writes a pod, a placeholder, a priority class or a Gang's status: no Lease and no event."""
    return not any(each in request.path for each in ("/leases", "/events", "/topologies"))


def at_write(world: World, number: int, act: Callable[[Process], None]) -> list[str]:
    """Act right after write `number` for gangs, from 0, before its answer travels. Return the list of all writes."""
    seen: list[str] = []

    def look(process: Process, request: Request) -> None:
        if is_own(request):
            seen.append(str(request))
            if len(seen) == number + 1:
                act(process)

    world.network.after_write = look
    return seen


def rivals(world: World, nodes: tuple[str, ...] = ("n1", "n2")) -> None:
    """Pods of the gang's priority, each of which wants one node of the plan."""
    for node in nodes:
        world.pod(f"rival-{node}", nodeSelector={"kubernetes.io/hostname": node})


def start_gang(world: World) -> None:
    """A gang of two, which fits rack r1 alone."""
    world.gang("g", 2)
    for index in range(2):
        world.pod(f"g-{index}", "g")


def writes_of_a_start() -> list[str]:
    """Return the writes by which an undisturbed leader starts the gang."""
    world = directed(forgets=True)
    seen = at_write(world, -1, lambda _process: None)
    start_gang(world)
    assert world.run_until(lambda: len(Director(world).bound("g")) == 2, 8.0), "\n".join(world.trace)
    return seen


def intruders(world: World) -> list[str]:
    """Return the rivals that are bound."""
    return sorted(
        each["metadata"]["name"] for each in world.pods() if "rival" in each["metadata"]["name"] and node_of(each)
    )


def first_hold(writes: list[str]) -> int:
    """Return the number of the write after which the whole plan is held: both placeholders are nominated."""
    held = [at for at, each in enumerate(writes) if "PATCH" in each and "/placeholder-" in each]
    return held[1]


def test_the_scheduler_forgets_what_it_is_said_to_forget() -> None:
    """Without placeholders, a rival gets the node of a gated and nominated member after a restart, and not before."""
    world = directed(forgets=True)
    world.forgets = False
    for candidate in world.candidates.values():
        candidate.forgets = False
    start_gang(world)
    assert world.run_until(lambda: all(nominated(world.get(f"g-{index}") or {}) for index in range(2)), 5.0, 0.001)
    leader = world.leader
    assert leader is not None
    leader.process.frozen = True
    rivals(world)
    world.run(2.0)
    assert intruders(world) == []
    world.scheduler.restart(RESTART_SECONDS)
    world.run(3.0)
    assert intruders(world) == ["rival-n1", "rival-n2"]


WRITES = 18
"""More than the writes of a start. A test of a number that is none checks only the start itself."""


@pytest.mark.parametrize("number", range(WRITES))
@pytest.mark.parametrize("dies", [False, True], ids=["scheduler restarts", "scheduler restarts and leader dies"])
@pytest.mark.parametrize("seconds", [0.0, RESTART_SECONDS])
def test_nobody_gets_into_the_capacity_of_a_gang_at_any_write(number: int, seconds: float, *, dies: bool) -> None:
    """From the last nomination of a placeholder on, no rival gets in. The only exception is the middle of a swap: the
    new scheduler reads the pods between the nomination of a member and the removal of its gate.
    """
    expected = writes_of_a_start()
    world = directed(forgets=True)

    def strike(process: Process) -> None:
        world.invariants.disturbed()
        rivals(world)
        world.scheduler.restart(seconds)
        if dies:
            process.end()

    seen = at_write(world, number, strike)
    start_gang(world)
    world.run(45.0)
    world.invariants.at_end()
    assert world.invariants.violations == [], "\n".join(world.trace)
    assert seen[: number + 1] == expected[: number + 1] or number >= len(expected)
    whole = len(Director(world).bound("g")) == 2
    torn = number < len(expected) and (
        (dies and is_deletion(expected[number])) or (not seconds and is_in_swap(expected, number))
    )
    if number >= first_hold(expected) and not torn:
        assert whole, "\n".join(world.trace)
        assert intruders(world) == []
    leftovers = [each["metadata"]["name"] for each in world.pods() if is_placeholder(each)]
    assert leftovers == []


def is_in_swap(writes: list[str], number: int) -> bool:
    """Whether the write is the nomination of a member, or the deletion of its placeholder after that."""
    return any(is_deletion(each) for each in writes[number : number + 2])


def is_deletion(request: str) -> bool:
    """Whether the request deletes a placeholder."""
    return request.startswith("DELETE") and "/placeholder-" in request


def test_the_gap_in_the_middle_of_a_swap_ends_with_the_next_leader() -> None:
    """The leader dies after it has deleted a placeholder. The scheduler restarts after the next leader has come."""
    world = directed(forgets=True)
    number = next(at for at, each in enumerate(writes_of_a_start()) if is_deletion(each))

    struck: list[str] = []

    def strike(process: Process) -> None:
        struck.append(process.name)
        rivals(world)
        process.end()

    at_write(world, number, strike)
    start_gang(world)

    def are_both_held() -> bool:
        return sum(bool(nominated(each)) for each in world.pods() if is_placeholder(each)) == 2

    assert world.run_until(lambda: struck, 5.0, 0.001)
    assert not are_both_held()
    assert world.run_until(are_both_held, 10.0, 0.001), "\n".join(world.trace)
    world.invariants.disturbed()
    world.scheduler.restart(RESTART_SECONDS)
    world.run(30.0)
    assert len(Director(world).bound("g")) == 2, "\n".join(world.trace)
    assert intruders(world) == []


@pytest.mark.parametrize("knows", [True, False], ids=["placeholders", "nominated members"])
def test_a_restart_while_victims_terminate_is_survived_and_a_loss_would_be_noticed(*, knows: bool) -> None:
    """A gang waits 20 s for its victim. After 10 s the scheduler restarts, and a rival of its priority wants n2.

    With a controller that takes the scheduler for a newer one, the rival gets in, and invariant (k) says so.
    """
    world = directed(forgets=True)
    for candidate in world.candidates.values():
        candidate.forgets = knows
    world.pod("low", nodeName="n1", priority="low", terminationGracePeriodSeconds=20)
    world.ask("PATCH", f"{PODS_PATH}/low", {"metadata": {"annotations": {"simulation/slow": "true"}}})
    world.pod("other", nodeName="n3", priority="high")
    world.run(2.0)
    world.gang("g", 2)
    for index in range(2):
        world.pod(f"g-{index}", "g", priority="middle")
    world.run(10.0)
    world.pod("rival-n2", priority="middle", nodeSelector={"kubernetes.io/hostname": "n2"})
    world.scheduler.restart(RESTART_SECONDS)
    world.run(5.0)
    lost = [each for each in world.invariants.violations if each.startswith("(k)")]
    assert (lost == [], intruders(world) == []) == (knows, knows), "\n".join(world.trace)


def test_a_scheduler_of_another_version_takes_over_in_either_direction() -> None:
    """A control plane is upgraded, and rolled back, while a gang waits for its victim."""
    for before in (False, True):
        world = directed(forgets=True)
        for candidate in world.candidates.values():
            candidate.forgets = before
        world.pod("low", nodeName="n1", priority="low", terminationGracePeriodSeconds=20)
        world.ask("PATCH", f"{PODS_PATH}/low", {"metadata": {"annotations": {"simulation/slow": "true"}}})
        world.pod("other", nodeName="n3", priority="high")
        world.run(2.0)
        world.gang("g", 2)
        for index in range(2):
            world.pod(f"g-{index}", "g", priority="middle")
        world.run(5.0)
        assert any(map(is_placeholder, world.pods())) == before, "\n".join(world.trace)
        for candidate in world.candidates.values():
            candidate.forgets = not before
        world.run(5.0)
        assert any(map(is_placeholder, world.pods())) != before, "\n".join(world.trace)
        world.run(40.0)
        assert len(Director(world).bound("g")) == 2, "\n".join(world.trace)
        assert world.invariants.violations == []


@pytest.mark.parametrize("seed", range(4))
def test_a_schedule_with_an_older_scheduler_breaks_no_invariant(seed: int) -> None:
    result = run(seed, forgets=True)
    if news := unknown(result.violations):
        pytest.fail(f"seed {seed}: {'; '.join(news)}\nmake simulate OLDER=1 SEED={seed}")


@pytest.mark.parametrize("forgets", [False, True])
def test_of_gangs_whose_expected_pods_a_quota_admits_once_one_starts_and_the_others_wait(
    monkeypatch: pytest.MonkeyPatch, *, forgets: bool
) -> None:
    """A quota of five pods, three StatefulSets of three pods, of which the first one exists and is never ready.

    The two that wait once reserved capacity and gave it back again and again, because capacity that placeholders
    without a gate reserve was not charged to the quota.
    """
    monkeypatch.setattr("simulation.models.stateful_sets.is_ready", lambda _pod: False)
    world = directed(forgets=forgets)
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": "default"}}
    status = {"hard": {"pods": "5"}, "used": {"pods": "3"}}
    world.ask("POST", RESOURCE_QUOTAS_PATH, {**quota, "spec": {"hard": {"pods": "5"}}, "status": status})
    for name in "vwx":
        world.ask("POST", STATEFUL_SETS_PATH, stateful_set(name, 3, cpu=1))
    world.run(4.0)
    before = len(world.trace)
    assert [len(Director(world).bound(name)) for name in "vwx"] == [1, 0, 0]
    assert len([each for each in world.pods() if is_placeholder(each)]) == 2
    world.run(20.0)
    assert [each for each in world.trace[before:] if "/pods" in each] == []


def test_releases_are_the_last_writes_of_swaps() -> None:
    """Each member is nominated, then its placeholder deleted, then its gate removed, one after the other."""
    world = directed(forgets=True)
    requests: list[Request] = []
    world.network.after_write = lambda _process, request: requests.append(request) if is_own(request) else None
    start_gang(world)
    assert world.run_until(lambda: len(Director(world).bound("g")) == 2, 8.0)
    opened = [at for at, each in enumerate(requests) if is_release(each)]
    for at in opened:
        nominate, delete, _ = (str(each) for each in requests[at - SWAP + 1 : at + 1])
        assert "/status" in nominate
        assert is_deletion(delete)
    assert len(opened) == 2
