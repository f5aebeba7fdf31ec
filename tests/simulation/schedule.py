"""One schedule: a cluster, its users and its faults, from a seed to the invariants that were broken."""

import gc
import logging
import random
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from unittest.mock import patch

from simulation.models.budgets import BUDGETS_PATH, budget
from simulation.network import NO_FAULTS, Faults
from simulation.real_time import no_real_time
from simulation.solving import solving_inline
from simulation.users import PROTECTED, Users
from simulation.world import LENDER, QUEUE, World

ACTIONS = 12
ACTION_SECONDS = (2.0, 0.1, 0.5, 5.0)
"""Seconds between two user actions."""
QUIET_SECONDS = 75.0
"""How long a schedule goes on once faults have stopped: a stuck pod is gone after 40 s, and then 30 s are promised."""
PROFILES = (
    NO_FAULTS,
    Faults(crash_before=10, crash_after=10),
    Faults(conflict=30, too_many=10, internal=20, answer_lost=20, unreachable=20),
    Faults(freeze=10),
    Faults(conflict=10, internal=10, answer_lost=10, unreachable=10, crash_before=5, crash_after=5, freeze=5),
)
QUOTAS = (0, 8, 16)
"""The cpus of the quota; 0: there is no queue."""
_OBJECTS_PER_COLLECTION = 50_000
"""How many new objects start a garbage collection. A schedule's objects live until its end, so that the collections of
Python's default, 700 new objects, took a tenth of the time and found nothing.
"""
_LATE = ((1, 0, 0, 0, 0), (70, 10, 15, 5, 0), (60, 10, 20, 8, 2))
"""How late watch events are, by how bad that is: weights of `watches.DELAYS`."""
NODES = (
    {"n1": ("r1", 4), "n2": ("r1", 4), "n3": ("r2", 4)},
    {"n1": ("r1", 4), "n2": ("r1", 4), "n3": ("r2", 4), "n4": ("r2", 4)},
    {"n1": ("r1", 8), "n2": ("r1", 4), "n3": ("r2", 4), "n4": ("r2", 4)},
    {"n1": ("r1", 4), "n2": ("r1", 4), "n3": ("r2", 4), "n4": ("r2", 4), "n5": ("r3", 4), "n6": ("r3", 4)},
)


@dataclass(frozen=True)
class Result:
    """The outcome of a schedule.

    `taken`: the questions that were not answered by the harmless option. `counts`: `World.counts`.
    """

    seed: int
    violations: tuple[str, ...]
    trace: tuple[str, ...]
    taken: frozenset[str]
    counts: Mapping[str, int]
    forgets: bool = False
    """As in `World`."""


def _seeded_hex(count: int) -> str:
    """Return the hexadecimal digits of so many bytes of the schedule's own random numbers."""
    return random.randbytes(count).hex()  # noqa: S311 - a seed is to be replayed


@contextmanager
def simulating() -> Iterator[None]:
    """Within it, schedules can run: product code plans inline, and cannot read the real time."""
    disabled, thresholds = logging.root.manager.disable, gc.get_threshold()
    logging.disable(logging.WARNING)
    gc.set_threshold(_OBJECTS_PER_COLLECTION, *thresholds[1:])
    gc.freeze()  # no collection looks at the modules again
    try:
        with ExitStack() as stack:
            stack.enter_context(solving_inline())
            stack.enter_context(no_real_time())
            stack.enter_context(patch.object(secrets, "token_hex", _seeded_hex))
            yield
    finally:
        logging.disable(disabled)
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def run(seed: int, allowed: frozenset[str] | None = None, *, forgets: bool = False) -> Result:
    """Run the schedule of a seed. `allowed`: as in `Choices`. `forgets`: as in `World`."""
    random.seed(seed)  # back-off of product code is spread by the global generator
    world = World(seed, allowed, forgets=forgets)
    with world.watching_for_failures():
        _play(world)
    return Result(
        seed,
        tuple(world.invariants.violations),
        tuple(world.trace),
        frozenset(world.choices.taken),
        world.counts,
        forgets,
    )


def _play(world: World) -> None:
    choices, users = world.choices, Users(world)
    faults = PROFILES[choices.pick("faults", (3, 3, 3, 2, 2))]
    late = _LATE[choices.pick("late", (3, 3, 2))]
    slow = bool(choices.pick("slow", (1, 1)))
    _make_slow(world, slow=slow)
    users.has_groups = bool(choices.pick("with groups", (3, 1)))
    users.has_devices = not world.forgets and bool(choices.pick("device claims", (3, 1)))
    shared = users.has_devices and bool(choices.pick("shared devices", (2, 1)))
    number = (1 if shared else 2) * users.has_devices
    world.furnish(NODES[choices.number("nodes", len(NODES))], devices_of_node=number, shared_devices=shared)
    world.hub.delay_weights = late
    world.hub.mishap_weights = (1, 0, 0) if late[3] == 0 else (970, 20, 10)
    further, protecting = choices.pick("further", (1, 1)), choices.pick("budget", (1, 1))
    for count in range(choices.number("low", 3)):
        world.pod(f"low{count}", priority="low", labels=PROTECTED if protecting else None)
    if quota := QUOTAS[choices.pick("quota", (3, 1, 1))]:
        users.queues = (QUEUE, LENDER) if further and choices.pick("cohort", (1, 1)) else (QUEUE,)
        world.queue(quota, *users.queues[1:])
    if protecting:
        world.ask("POST", BUDGETS_PATH, budget("keep", PROTECTED, 1))
    if choices.pick("webhook", (1, 1)):
        world.start_webhook().review_weights = (80, 10, 8, 2) if slow else (1, 0, 0, 0)
    world.run(1.0)
    world.start("c1", "c2") if choices.pick("controllers", (2, 1)) == 0 else world.start("c1")
    world.run(0.5)
    world.network.faults = faults
    users.gang("first")
    for number in range(ACTIONS):
        world.run(choices.one_of("between", ACTION_SECONDS))
        users.act(number)
        if further:
            users.act_further(number)
        if users.has_groups:
            users.act_with_groups(number)
        if users.has_devices:
            users.act_with_devices(number)
    world.run(choices.one_of("between", ACTION_SECONDS))
    _heal(world)
    world.run(QUIET_SECONDS)
    world.invariants.at_end()


def _make_slow(world: World, *, slow: bool) -> None:
    if slow:
        world.plan_weights = 80, 15, 5
        world.restart_weights = 5, 3, 2, 1
        world.scheduler.cycle_weights = 90, 7, 2, 1
        world.scheduler.bind_weights = 90, 8, 2
        world.kubelets.end_weights = 50, 20, 20, 10
        world.kubelets.ready_weights = 80, 15, 5
        _set_weights(world, (80, 15, 5))


def _heal(world: World) -> None:
    """Stop all faults."""
    world.note("faults stop")
    world.network.faults = NO_FAULTS
    world.hub.delay_weights, world.hub.mishap_weights = (1, 0, 0, 0, 0), (1, 0, 0)
    _make_quick(world)
    world.invariants.disturbed()


def _make_quick(world: World) -> None:
    world.plan_weights, world.restart_weights = (1, 0, 0), (1, 0, 0, 0)
    world.scheduler.cycle_weights, world.scheduler.bind_weights = (1, 0, 0, 0), (1, 0, 0)
    world.kubelets.end_weights, world.kubelets.ready_weights = (1, 0, 0, 0), (1, 0, 0)
    if world.webhook is not None:
        world.webhook.review_weights = 1, 0, 0, 0
    _set_weights(world, (1, 0, 0))


def _set_weights(world: World, weights: tuple[int, int, int]) -> None:
    """Set how often the controllers of kube-controller-manager and of operators are slow."""
    for each in (world.jobs, world.stateful_sets, world.groups, world.budgets, world.claims):
        each.weights = weights
