"""Several gangs at once against a reference that tries every plan, on small random problems.

`PHALANX_BRUTE_FORCE_INSTANCES` says how many in all (2,000); a quarter as many again are of several gangs.
"""

import os
from functools import cache

import pytest
from features import FEATURES
from joint_brute_force import JOINT_GOALS, Whole, best_together
from random_problems import random_joint
from thorough import chunks

from solver.multi_gang.joint import solve_joint
from solver.multi_gang.joint_problem import JointAnswer, JointProblem, faults_of
from solver.plan import Proof
from solver.problem import Limits

pytestmark = pytest.mark.timeout(3600)
"""A slow machine may take its time."""

INSTANCES = int(os.environ.get("PHALANX_BRUTE_FORCE_INSTANCES", "2000")) // 4
CHUNK = 50
SAMPLE = 500
"""Instances among which there has to be one for each goal in which it decides."""
DRAWN = 0.005
"""The least share of the instances that have a feature."""
NOT_TOGETHER = {
    "multiples of the gang",
    "slices nested three times",
    "topology spread",
    "pods of others in topology spread",
    "victims that topology spread counts",
}
"""What gangs that are planned together do not have here: such gangs are planned alone, or are too large."""
PATIENT = Limits(deterministic=60.0, seconds=600.0)


@cache
def expected(seed: int) -> Whole:
    return best_together(random_joint(seed))


def told(answer: JointAnswer) -> Whole:
    """The answer as the reference puts it."""
    victims = {victim for share in answer.shares if share is not None for victim in share.victims}
    return Whole(tuple(None if share is None else share.nodes for share in answer.shares), tuple(sorted(victims)))


@pytest.mark.parametrize("seeds", chunks(INSTANCES, CHUNK, fast=10))
def test_the_joint_plan_is_the_best_of_all_joint_plans(seeds: range) -> None:
    for seed in seeds:
        joint = random_joint(seed)
        answer = solve_joint(joint, PATIENT)
        assert told(answer) == expected(seed), f"seed {seed}"
        assert answer.proof is Proof.OPTIMAL, f"seed {seed}"
        assert faults_of(joint, answer) == (), f"seed {seed}"


@pytest.mark.long
@pytest.mark.thorough
@pytest.mark.parametrize("goal", JOINT_GOALS)
def test_a_reference_without_the_goal_wants_another_joint_plan(goal: str) -> None:
    """The solver's plan is that of the whole reference, so the comparison fails where one of the two forgets a goal.
    For one gang each goal decides in a hundredth of the instances.
    """
    assert any(best_together(random_joint(seed), leaving_out=goal) != expected(seed) for seed in range(SAMPLE))


@pytest.mark.long
@pytest.mark.thorough
def test_every_earlier_gang_keeps_its_place_and_often_enough_somebody_has_none() -> None:
    outcomes = [tuple(rows is not None for rows in expected(seed).gangs) for seed in range(SAMPLE)]
    assert sum(all(outcome) for outcome in outcomes) >= SAMPLE / 4
    assert sum(any(outcome) and not all(outcome) for outcome in outcomes) >= SAMPLE / 10


@pytest.mark.long
@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(FEATURES.keys() - NOT_TOGETHER))
def test_the_feature_is_drawn_for_several_gangs_too(name: str) -> None:
    def drawn(joint: JointProblem) -> bool:
        return any(FEATURES[name](gang) != gang for gang in joint.gangs)

    assert sum(drawn(random_joint(seed)) for seed in range(SAMPLE)) / SAMPLE >= DRAWN
