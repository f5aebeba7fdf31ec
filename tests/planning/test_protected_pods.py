"""Evictions overdraw no budget, and every running gang keeps its minimums or is evicted as a whole.

Gangs of several priorities are planned in one request and over several reconciles. `protected_pods` checks all their
evictions independently. The environment variable `PHALANX_PROTECTION_INSTANCES` is the number of instances (100).
"""

import os
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from itertools import islice
from math import ceil
from random import Random
from unittest.mock import patch

import pytest
from protected_pods import Instance, carry_out, draw, plan, wrongs
from thorough import chunks

from gangs.model import Gang, PodSet
from planning.decision import Decision
from planning.framing import running_gangs as running

pytestmark = pytest.mark.timeout(3600)
"""A slow machine may take its time."""

INSTANCES = int(os.environ.get("PHALANX_PROTECTION_INSTANCES", "100"))
CHUNK = 50
ROUNDS = 2


def in_rounds(seed: int, rounds: int) -> tuple[Instance, list[Decision]]:
    """Plan all gangs of an instance, some in each round, and return the instance and all decisions.

    After each round, every new plan reaches a random stage, such as recorded or carried out.
    """
    instance, random, decisions = draw(seed), Random(seed), list[Decision]()  # noqa: S311 - to be repeatable
    for left in range(rounds, 0, -1):
        names = instance.asking if left == 1 else instance.asking[: len(instance.asking) // left]
        found = plan(instance, names)
        decisions += found
        instance = carry_out(instance, found, random)
    return instance, decisions


@pytest.mark.parametrize("rounds", [1, ROUNDS])
@pytest.mark.parametrize("seeds", chunks(INSTANCES, CHUNK, fast=15))
def test_no_budget_is_overdrawn_and_no_gang_is_cut_short(seeds: range, rounds: int) -> None:
    for seed in seeds:
        assert wrongs(in_rounds(seed, rounds)[0]) == [], f"seed {seed}"


@cache
def evicting() -> Counter[int]:
    """Return, for each number of evicting plans, how many instances have this number."""
    plans = (in_rounds(seed, ROUNDS)[1] for seed in range(INSTANCES))
    return Counter(sum(bool(each.evictions) for each in found) for found in plans)


@pytest.mark.long
@pytest.mark.thorough
def test_several_plans_evict_often_enough() -> None:
    assert sum(count for several, count in evicting().items() if several > 1) >= INSTANCES / 10


def without_sets(gang: Gang, _: PodSet | None) -> running.RunningGang:
    """Return a running gang with its total minimum only, without the minimums of its sets."""
    return running.RunningGang(gang.key, gang.min_member)


BLIND: Mapping[str, tuple[str, Callable[..., object]]] = {
    "what plans spend of budgets": ("planning.framing.disruption_budgets._spent_in", lambda _: {}),
    "what plans in force evict": ("protected_pods.promised_by", lambda _: []),
    "minimums of sets": ("planning.framing.running_gangs._member_of", without_sets),
    "gangs that cannot be read": ("gangs.dialects.reading._astray", lambda *_: ()),
}


@pytest.mark.long
@pytest.mark.thorough
@pytest.mark.parametrize("what", BLIND)
def test_a_planner_blind_to_it_does_wrong(what: str) -> None:
    """A planner without this rule makes a fault in at least a hundredth of the instances."""
    with patch(*BLIND[what]):
        wrong = (seed for seed in range(INSTANCES) if wrongs(in_rounds(seed, ROUNDS)[0]))
        found = list(islice(wrong, ceil(INSTANCES / 100)))
    assert len(found) >= INSTANCES / 100, found
