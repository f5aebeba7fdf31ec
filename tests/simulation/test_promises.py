"""Promises that hold whatever happens at the instant that matters (docs/decisions/0036)."""

from collections.abc import Iterator, Sequence

import pytest
from node_manifests import node_manifest

from simulation.directed import TWO_RACKS, Director, directed, is_bound, is_nominated
from simulation.models.budgets import BUDGETS_PATH, budget
from simulation.models.jobs import JOBS_PATH, job
from simulation.models.kubelets import STUCK
from simulation.models.leader_worker_sets import CREATED, LEADER_WORKER_SETS_PATH, READY, leader_worker_set
from simulation.models.stateful_sets import ORDERED, PARALLEL, STATEFUL_SETS_PATH, stateful_set
from simulation.network import Process
from simulation.objects import GANG_LABEL, gang_of, gates_of, is_terminating, node_of
from simulation.schedule import simulating
from simulation.world import GANGS_PATH, LENDER, NODES_PATH, PODS_PATH, QUEUE, RACK, World

_NOW = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}


@pytest.fixture(autouse=True)
def simulated() -> Iterator[None]:
    """No real time, and plans within this process."""
    with simulating():
        yield


def two_members(world: World, name: str, priority: str = "") -> None:
    """A gang of two, which fits rack r1 alone."""
    world.gang(name, 2)
    for index in range(2):
        world.pod(f"{name}-{index}", name, priority=priority)


def broken(world: World) -> list[str]:
    """The violations, with the trace where there are any."""
    found = world.invariants.violations
    if found:
        print("\n".join(world.trace))  # noqa: T201 - pytest shows it with the failure
    return found


def half_released(world: World, *, cut: bool = False) -> Director:
    """Gang "g", of which one member was released when its leader died, or was cut off; a rival takes the other node."""
    director = Director(world)

    def strike(process: Process) -> None:
        world.invariants.disturbed()
        world.restarting = False
        if cut:
            world.network.cut.add(process.name)
        else:
            process.end()

    director.after_release(1, strike)
    two_members(world, "g", "low")
    assert world.run_until(lambda: director.bound("g"), 5.0)
    world.pod("rival", priority="high")
    return director


def test_a_gang_goes_from_created_to_bound() -> None:
    world = directed()
    two_members(world, "g")
    assert world.run_until(lambda: len(Director(world).bound("g")) == 2, 5.0)
    world.run(40.0)
    world.invariants.at_end()
    assert broken(world) == []


def test_a_gang_half_released_by_a_leader_that_died_is_withdrawn() -> None:
    world = directed()
    director = half_released(world)
    world.run(15.0)
    assert broken(world) == []
    assert director.bound("g") == []


@pytest.mark.parametrize("priority", ["high", "low"])
def test_no_gang_is_released_in_the_round_that_gives_its_capacity_away(priority: str) -> None:
    """The round sees two things at once: the probe for "low" is answered, and the plan for the other gang is there."""
    world = directed(controllers=1)
    world.scheduler.preempts = False
    leader = world.leader
    assert leader is not None
    director = Director(world)
    director.when(is_nominated("first"), lambda: setattr(world.scheduler, "paused", True))
    two_members(world, "first", "low")
    assert world.run_until(lambda: world.scheduler.paused, 5.0, 0.001)
    world.run(1.0)
    for lane in leader.lanes:
        lane.seconds = 2.0
    two_members(world, "second", priority)
    assert world.run_until(lambda: not all(lane.idle for lane in leader.lanes), 5.0, 0.0005)
    world.run(2.0 - 0.007)
    world.scheduler.paused = False
    world.scheduler.wake()
    world.run(60.0)
    assert broken(world) == []


@pytest.mark.parametrize("wiped", ["status wiped", "object deleted", "status of another version"])
def test_withdrawal_does_not_depend_on_the_status(wiped: str) -> None:
    world = directed()
    director = half_released(world)
    gang = world.ask("GET", f"{GANGS_PATH}/g")
    assert gang is not None
    if wiped == "object deleted":
        world.ask("DELETE", f"{GANGS_PATH}/g")
        world.ask("POST", GANGS_PATH, {"metadata": {"name": "g"}, "spec": gang["spec"]})
    else:
        status = {} if wiped == "status wiped" else {"phase": "Released", "state": "v0"}
        whole = {"metadata": {key: gang["metadata"][key] for key in ("name", "uid")}, "spec": gang["spec"]}
        world.ask("PUT", f"{GANGS_PATH}/g/status", {**whole, "status": status}, "application/json")
    world.invariants.disturbed()
    world.run(30.0)
    assert broken(world) == []
    assert director.bound("g") == []


def test_a_member_deleted_while_the_leader_is_cut_off_does_not_leave_the_others_in_part() -> None:
    world = directed()
    director = half_released(world, cut=True)
    gated = "g-1" if director.bound("g") == ["g-0"] else "g-0"
    world.ask("DELETE", f"{PODS_PATH}/{gated}", _NOW)
    world.invariants.disturbed()
    world.run(30.0)
    assert broken(world) == []
    assert director.bound("g") == []


def test_a_pod_that_does_not_end_holds_up_no_gang_that_fits_elsewhere() -> None:
    """Rack r1 is the tightest place, if its terminating pod counts as gone; r2 is free all the time."""
    world = World(0, frozenset())
    world.furnish({"n1": ("r1", 4), "n2": ("r1", 4), "n3": ("r2", 8), "n4": ("r2", 8)})
    world.start("c1", "c2")
    world.run(1.0)
    world.pod("old", nodeName="n1", terminationGracePeriodSeconds=1)
    world.ask("PATCH", f"{PODS_PATH}/old", {"metadata": {"finalizers": [STUCK]}})
    world.ask("DELETE", f"{PODS_PATH}/old")
    two_members(world, "g")
    assert world.run_until(lambda: len(Director(world).bound("g")) == 2, 62.0), "\n".join(world.trace)
    assert broken(world) == []


def test_no_pod_is_evicted_for_a_plan_that_waits_for_an_overdue_pod() -> None:
    """Rack r1 holds a pod that does not end, and one of low priority: the latter is not evicted in vain."""
    world = directed()
    world.pod("low", nodeName="n2", priority="low")
    world.pod("rival", nodeName="n3", priority="high")
    world.pod("old", nodeName="n1", terminationGracePeriodSeconds=1)
    world.ask("PATCH", f"{PODS_PATH}/old", {"metadata": {"finalizers": [STUCK]}})
    world.ask("DELETE", f"{PODS_PATH}/old")
    world.run(35.0)
    two_members(world, "g", "middle")
    world.run(60.0)
    low = world.get("low")
    assert low is not None
    assert "deletionTimestamp" not in low["metadata"]
    assert broken(world) == []


def test_a_job_goes_from_created_to_bound_and_its_lost_pod_is_replaced() -> None:
    world = directed()
    director = Director(world)
    world.ask("POST", JOBS_PATH, job("j", 2))
    assert world.run_until(lambda: len(director.bound("j")) == 2, 5.0), "\n".join(world.trace)
    world.run(2.0)
    world.invariants.disturbed()
    world.ask("DELETE", f"{PODS_PATH}/{director.bound('j')[0]}")
    world.run(5.0)
    assert len(director.bound("j")) == 2
    world.invariants.disturbed()
    world.ask("DELETE", f"{JOBS_PATH}/j")
    world.run(45.0)
    world.invariants.at_end()
    assert broken(world) == []
    assert director.bound("j") == []


@pytest.mark.parametrize("policy", [ORDERED, PARALLEL])
def test_a_stateful_set_goes_from_created_to_bound_and_its_lost_pod_is_replaced(policy: str) -> None:
    world = directed()
    director = Director(world)
    world.ask("POST", STATEFUL_SETS_PATH, stateful_set("s", 2, policy=policy))
    assert world.run_until(lambda: len(director.bound("s")) == 2, 10.0), "\n".join(world.trace)
    assert any("placeholder-" in line for line in world.trace) == (policy == ORDERED)
    world.run(2.0)
    world.invariants.disturbed()
    world.ask("DELETE", f"{PODS_PATH}/s-0")
    world.run(5.0)
    assert director.bound("s") == ["s-0", "s-1"]
    world.invariants.disturbed()
    world.ask("DELETE", f"{STATEFUL_SETS_PATH}/s")
    world.run(45.0)
    world.invariants.at_end()
    assert broken(world) == []
    assert director.bound("s") == []


@pytest.mark.parametrize("seconds", [4.0, 40.0])
def test_no_leader_starts_while_a_finalizer_holds_the_pod_whose_name_the_next_one_gets(seconds: float) -> None:
    """A StatefulSet recreates pod 1 only when the old pod 1 has ended. Pod 0 would run alone until then.

    `seconds`: after the deletion of pod 1, pod 0 is deleted; after 40 s pod 1 is overdue.
    """
    world = directed()
    director = Director(world)
    world.ask("POST", STATEFUL_SETS_PATH, stateful_set("s", 2))
    assert world.run_until(lambda: len(director.bound("s")) == 2, 10.0), "\n".join(world.trace)
    world.run(2.0)
    world.invariants.disturbed()
    world.ask("PATCH", f"{PODS_PATH}/s-1", {"metadata": {"finalizers": [STUCK]}})
    world.ask("DELETE", f"{PODS_PATH}/s-1")
    world.run(seconds)
    world.invariants.disturbed()
    world.ask("DELETE", f"{PODS_PATH}/s-0")
    world.run(30.0)
    first = world.get("s-0")
    assert first is not None
    assert gates_of(first)
    assert "pod default/s-1 (its finalizers are simulation/stuck) has ended" in world.status_of("s")["message"]
    world.invariants.disturbed()
    world.ask("PATCH", f"{PODS_PATH}/s-1", {"metadata": {"finalizers": None}})
    assert world.run_until(lambda: director.bound("s") == ["s-0", "s-1"], 10.0), "\n".join(world.trace)
    assert broken(world) == []


def test_a_gang_in_part_is_withdrawn_after_a_minute_if_a_finalizer_holds_the_pod_whose_name_it_needs() -> None:
    """Pod 0 is deleted after the release of pod 1, and before the scheduler binds pod 1: the gang was never whole."""
    world = directed()
    director = Director(world)
    director.after_release(2, lambda _process: setattr(world.scheduler, "paused", True))
    world.ask("POST", STATEFUL_SETS_PATH, stateful_set("s", 2))
    world.run(2.0)
    assert director.bound("s") == ["s-0"], "\n".join(world.trace)
    world.ask("PATCH", f"{PODS_PATH}/s-0", {"metadata": {"finalizers": [STUCK]}})
    world.ask("DELETE", f"{PODS_PATH}/s-0")
    world.run(1.0)
    world.scheduler.paused = False
    world.scheduler.wake()
    world.invariants.disturbed()
    assert world.run_until(lambda: runs(world, "s-1"), 2.0), "\n".join(world.trace)
    assert not world.run_until(lambda: not runs(world, "s-1"), 50.0, 1.0)
    assert world.run_until(lambda: not runs(world, "s-1"), 15.0), "\n".join(world.trace)
    assert broken(world) == []


def runs(world: World, name: str) -> bool:
    """Return whether the pod is bound and does not terminate."""
    pod = world.get(name)
    return pod is not None and bool(node_of(pod)) and not is_terminating(pod)


def test_a_leader_that_runs_alone_is_withdrawn_if_a_higher_priority_takes_the_capacity_of_the_others() -> None:
    world = directed()
    director = Director(world)
    world.kubelets.ready_weights = 0, 0, 1
    world.ask("POST", STATEFUL_SETS_PATH, stateful_set("s", 2, priority="low"))
    assert world.run_until(lambda: director.bound("s"), 5.0), "\n".join(world.trace)
    assert world.invariants.is_leader_first("default/s")
    world.pod("rival", priority="high")
    world.pod("other", priority="high", nodeName="n3")
    world.invariants.disturbed()
    world.run(30.0)
    assert director.bound("s") == [], "\n".join(world.trace)
    assert broken(world) == []


@pytest.mark.parametrize("available", [0, 1])
def test_a_gang_takes_the_pods_of_a_budget_only_as_far_as_the_budget_allows(available: int) -> None:
    """The gang needs both nodes of r1, and a budget covers the pods there."""
    world = directed()
    director = Director(world)
    world.pod("rival", nodeName="n3", priority="high")
    for node in ("n1", "n2"):
        world.pod(f"low-{node}", nodeName=node, priority="low", labels={"budget": "keep"})
    world.ask("POST", BUDGETS_PATH, budget("keep", {"budget": "keep"}, available))
    world.run(5.0)
    two_members(world, "g", "middle")
    world.run(60.0)
    assert len(director.bound("g")) == (0 if available else 2), "\n".join(world.trace)
    assert all(world.get(f"low-{node}") for node in ("n1", "n2")) == bool(available)
    assert world.invariants.violations == []


def test_a_gang_waits_for_the_quota_that_another_gang_of_its_queue_uses() -> None:
    world = World(0, frozenset())
    world.furnish({"n1": ("r1", 4), "n2": ("r1", 4), "n3": ("r2", 4), "n4": ("r2", 4)})
    world.queue(12)
    world.start("c1", "c2")
    world.run(1.0)
    director = Director(world)
    for name in ("first", "second"):
        world.gang(name, 2, queue=QUEUE)
        for index in range(2):
            world.pod(f"{name}-{index}", name)
        world.run(5.0)
    assert (len(director.bound("first")), len(director.bound("second"))) == (2, 0), "\n".join(world.trace)
    world.run(40.0)
    world.invariants.at_end()
    assert world.counts["gangs that wait for quota at the end"] == 1
    world.invariants.disturbed()
    for index in range(2):
        world.ask("DELETE", f"{PODS_PATH}/first-{index}")
    assert world.run_until(lambda: len(director.bound("second")) == 2, 20.0), "\n".join(world.trace)
    assert broken(world) == []


def test_a_gang_borrows_the_quota_of_its_cohort_and_the_next_one_waits_until_it_is_free() -> None:
    world = World(0, frozenset())
    world.furnish({"n1": ("r1", 4), "n2": ("r1", 4), "n3": ("r2", 4), "n4": ("r2", 4)})
    world.queue(4, LENDER)
    world.start("c1", "c2")
    world.run(1.0)
    director = Director(world)
    for name, queue in (("first", QUEUE), ("second", LENDER)):
        world.gang(name, 2, queue=queue)
        for index in range(2):
            world.pod(f"{name}-{index}", name)
        world.run(5.0)
    assert (len(director.bound("first")), len(director.bound("second"))) == (2, 0), "\n".join(world.trace)
    assert world.counts["bindings of a queue that borrowed"] == 1
    world.run(40.0)
    world.invariants.at_end()
    assert world.counts["gangs that wait for quota at the end"] == 1
    world.invariants.disturbed()
    for index in range(2):
        world.ask("DELETE", f"{PODS_PATH}/first-{index}")
    assert world.run_until(lambda: len(director.bound("second")) == 2, 20.0), "\n".join(world.trace)
    assert broken(world) == []


@pytest.mark.parametrize("policy", [ORDERED, PARALLEL])
def test_a_stateful_set_that_is_scaled_stays_a_gang(policy: str) -> None:
    world = directed()
    director = Director(world)
    world.ask("POST", STATEFUL_SETS_PATH, stateful_set("s", 2, policy=policy, cpu=1))
    for replicas in (2, 4, 1):
        world.invariants.disturbed()
        world.ask("PATCH", f"{STATEFUL_SETS_PATH}/s", {"spec": {"replicas": replicas}})
        names = [f"s-{ordinal}" for ordinal in range(replicas)]

        def bound(names: Sequence[str] = names) -> bool:
            return bool(director.bound("s") == names)

        def asked(replicas: int = replicas) -> bool:
            return world.invariants.minimum("default/s") == replicas

        assert world.run_until(bound, 20.0), "\n".join(world.trace)
        assert world.run_until(asked, 5.0)
    world.run(40.0)
    world.invariants.at_end()
    assert broken(world) == []


def test_a_pod_that_is_deleted_while_its_node_is_lost_ends_when_the_node_is_back() -> None:
    """Otherwise a plan counts on its end, and evicts other pods in vain."""
    world = directed()
    world.pod("old", nodeName="n1", terminationGracePeriodSeconds=1)
    world.run(1.0)
    node = world.ask("GET", f"{NODES_PATH}/n1")
    assert node is not None
    world.ask("DELETE", f"{NODES_PATH}/n1")
    world.ask("DELETE", f"{PODS_PATH}/old")
    world.run(5.0)
    assert world.get("old") is not None
    world.ask("POST", NODES_PATH, {**node, "metadata": {"name": "n1", "labels": node["metadata"]["labels"]}})
    assert world.run_until(lambda: world.get("old") is None, 2.0)


def test_the_time_without_any_controller_counts_as_a_fault() -> None:
    """The only controller dies between the two members of a leader-first gang, and comes back after 15 s."""
    world = World(0)
    world.restart_weights = (0, 0, 0, 1)
    world.furnish(TWO_RACKS)
    world.start("c1")
    world.run(1.0)
    director = Director(world)

    def strike(process: Process) -> None:
        world.invariants.disturbed()
        process.end()

    director.after_release(1, strike)
    world.ask("POST", STATEFUL_SETS_PATH, stateful_set("s", 2))
    world.run(60.0)
    world.invariants.at_end()
    assert director.bound("s") == ["s-0", "s-1"], "\n".join(world.trace)
    assert broken(world) == []


def test_a_level_that_a_user_adds_to_a_running_gang_counts_for_its_next_start() -> None:
    """The Gang that is created again has the user's level, and is in its first generation."""
    world = directed()
    director = Director(world)
    world.gang("g", 3, required=None)
    for index in range(3):
        world.pod(f"g-{index}", "g")
    assert world.run_until(lambda: len(director.bound("g")) == 3, 10.0), "\n".join(world.trace)
    world.invariants.disturbed()
    world.ask("PATCH", f"{GANGS_PATH}/g", {"spec": {"required": "rack"}})
    world.ask("DELETE", f"{GANGS_PATH}/g")
    world.gang("g", 3)
    world.ask("DELETE", f"{PODS_PATH}/g-2")
    world.run(5.0)
    assert broken(world) == []


def test_a_gang_in_part_that_a_budget_protects_is_withdrawn_once_the_budget_is_gone() -> None:
    """A withdrawal goes through the Eviction API (docs/decisions/0015)."""
    world = directed()
    world.ask("POST", BUDGETS_PATH, budget("keep", {GANG_LABEL: "g"}, 1))
    director = half_released(world)
    world.run(60.0)
    assert director.bound("g"), "\n".join(world.trace)
    assert world.counts["gangs in part that a budget protects"]
    assert world.counts["evictions that a budget or a fault refused"]
    world.invariants.disturbed()
    world.ask("DELETE", f"{BUDGETS_PATH}/keep")
    assert world.run_until(lambda: not director.bound("g"), 10.0), "\n".join(world.trace)
    assert broken(world) == []


def test_members_that_no_webhook_admits_start_once_a_replica_answers() -> None:
    """Pods of no gang do not depend on the webhook (docs/decisions/0003)."""
    world = with_webhook()
    assert world.webhook is not None
    director = Director(world)
    world.webhook.answers = False
    world.invariants.disturbed(world.engine.now + 8.0)
    world.ask("POST", JOBS_PATH, job("j", 2))
    world.pod("alone", nodeName="n3")
    world.run(8.0)
    assert [each["metadata"]["name"] for each in world.pods() if not gang_of(each)] == ["alone"]
    assert not [each for each in world.pods() if gang_of(each)], "\n".join(world.trace)
    assert world.counts["members that the API server refused without a webhook"] >= 2
    world.webhook.answers = True
    assert world.run_until(lambda: len(director.bound("j")) == 2, 10.0), "\n".join(world.trace)
    assert broken(world) == []


def with_webhook() -> World:
    """The world of `directed`, and a webhook that admits pods."""
    world = World(0, frozenset())
    world.furnish(TWO_RACKS)
    world.start_webhook()
    world.start("c1", "c2")
    world.run(1.0)
    return world


def test_the_webhook_pins_a_recreated_pod_to_where_its_siblings_run() -> None:
    world = with_webhook()
    director = Director(world)
    world.ask("POST", STATEFUL_SETS_PATH, stateful_set("s", 2, policy=PARALLEL))
    assert world.run_until(lambda: len(director.bound("s")) == 2, 10.0), "\n".join(world.trace)
    world.run(2.0)
    world.invariants.disturbed()
    world.ask("DELETE", f"{PODS_PATH}/s-0")
    world.run(5.0)
    assert director.bound("s") == ["s-0", "s-1"], "\n".join(world.trace)
    assert world.counts["pods that the webhook pinned beside siblings"] == 1
    assert broken(world) == []


def test_a_gang_that_a_stale_webhook_pinned_starts_where_it_fits() -> None:
    """The webhook still sees the sibling that is gone, and pins the new pod to r1, which another pod fills."""
    world = with_webhook()
    world.api.create(NODES_PATH, {"spec": {}, **node_manifest("n4", {RACK: "r2"}, 4)})
    director = Director(world)
    world.ask("POST", STATEFUL_SETS_PATH, stateful_set("s", 2, policy=PARALLEL))
    assert world.run_until(lambda: len(director.bound("s")) == 2, 10.0), "\n".join(world.trace)
    world.run(2.0)
    racks = {"n1": "r1", "n2": "r1", "n3": "r2", "n4": "r2"}
    (rack,) = {racks[node_of(pod)] for pod in world.pods() if gang_of(pod) == "default/s"}
    assert world.webhook is not None
    world.webhook.process.frozen = True
    world.invariants.disturbed()
    for index in range(2):
        world.ask("DELETE", f"{PODS_PATH}/s-{index}", _NOW)
    for node in (name for name, where in racks.items() if where == rack):
        world.pod(f"rival-{node}", priority="high", nodeName=node)
    world.run(5.0)
    assert world.counts["pods that the webhook pinned beside siblings"], "\n".join(world.trace)
    world.invariants.disturbed()
    world.webhook.process.thaw()
    world.run(40.0)
    world.invariants.at_end()
    assert len(director.bound("s")) == 2, "\n".join(world.trace)
    assert broken(world) == []


def test_a_bound_member_is_reported_when_the_scheduler_dawdles() -> None:
    """A scheduler that hangs between two bindings of a gang delays it, and breaks nothing."""
    world = directed()
    director = Director(world)

    def hang() -> None:
        world.scheduler.paused = True
        world.invariants.disturbed(world.engine.now + 3.0)
        world.engine.after(3.0, go_on)

    def go_on() -> None:
        world.scheduler.paused = False
        world.scheduler.wake()

    director.when(is_bound("g-0"), hang)
    two_members(world, "g")
    world.run(40.0)
    world.invariants.at_end()
    assert len(director.bound("g")) == 2
    assert broken(world) == []


@pytest.mark.parametrize("startup", [READY, CREATED])
def test_a_group_starts_as_a_gang_and_is_restarted_as_a_whole(startup: str) -> None:
    """The operator deletes the leader when a user deletes the worker, and creates the workers after the new leader."""
    world = directed()
    director = Director(world)
    world.ask("POST", LEADER_WORKER_SETS_PATH, leader_worker_set("l", 1, 2, startup=startup))
    assert world.run_until(lambda: director.bound("l-0") == ["l-0", "l-0-1"], 10.0), "\n".join(world.trace)
    old = {pod["metadata"]["uid"] for pod in world.pods()}
    world.run(2.0)
    world.invariants.disturbed()
    world.ask("DELETE", f"{PODS_PATH}/l-0-1")
    assert world.run_until(lambda: not director.bound("l-0"), 5.0)
    assert world.run_until(lambda: director.bound("l-0") == ["l-0", "l-0-1"], 10.0), "\n".join(world.trace)
    assert old.isdisjoint(pod["metadata"]["uid"] for pod in world.pods())
    world.run(40.0)
    world.invariants.at_end()
    assert broken(world) == []
    assert world.invariants.is_leader_first("default/l-0") == (startup == READY)
