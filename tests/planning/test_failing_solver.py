"""The reports when all solver processes die: plans and rejections, none of them proven."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import scenes

from planning import planner
from planning.competing import planned_together
from planning.decision import Outcome, Refusal
from planning.messages.solve_report import gang_report
from planning.solver_pool.pool import Workers
from solver.problem import Limits

FAULTY = Path(__file__).with_name("faulty_worker.py")
PATIENT = Limits(seconds=600.0)


@pytest.fixture(autouse=True)
def dying_workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make every solver process of this process die on every problem."""
    pool = Workers(command=(sys.executable, str(FAULTY), "killed"))
    for module in (planner, planned_together):
        monkeypatch.setattr(module, "shared_workers", lambda: pool)
    yield
    pool.close()


def test_a_gang_that_fits_is_placed_and_the_answer_claims_no_more() -> None:
    run = scenes.solved(
        scenes.topology(), scenes.nodes(), scenes.gang(minMember=4, required="spine"), scenes.members(4), limits=PATIENT
    )
    (decision,) = run.decisions
    assert (decision.outcome, decision.proof) == (Outcome.PLACED, "Feasible")
    assert decision.message.endswith("in spine-1: node-5..8, not proven optimal in the time given")
    report = gang_report(decision)
    assert (report["outcome"], report["proof"], report["placed"]) == ("Placed", "Feasible", 4)
    assert {goal["goal"]: goal["bound"] for goal in report["objective"]}["compactness/node"] == 0


def test_a_gang_that_counting_shows_never_to_fit_is_infeasible_without_the_solver() -> None:
    """A gang that requires one spine and allows one member in a spine: it is infeasible."""
    term = {"labelSelector": {}, "topologyKey": scenes.label("spine")}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    gang, members = scenes.gang(minMember=2, required="spine"), scenes.members(2, affinity=apart)
    (decision,) = scenes.solved(scenes.topology(), scenes.nodes(), gang, members, limits=PATIENT).decisions
    assert (decision.outcome, decision.proof) == (Outcome.UNPLACEABLE, "Infeasible")
    assert decision.refusal is Refusal.NEVER_FITS


@pytest.mark.long
def test_a_gang_for_which_there_is_no_room_is_refused_by_counting() -> None:
    gang, members = scenes.gang(minMember=6, required="spine"), scenes.members(6)
    (decision,) = scenes.solved(scenes.topology(), scenes.nodes(), gang, members, limits=PATIENT).decisions
    assert (decision.outcome, decision.proof) == (Outcome.UNPLACEABLE, "Infeasible")


@pytest.mark.long
def test_gangs_that_compete_are_planned_one_after_the_other() -> None:
    """Spine s can hold two of the three members."""
    gangs = [part for name in ("a", "b", "c") for part in (scenes.gang(name, minMember=2), *scenes.members(2, of=name))]
    run = scenes.solved(scenes.topology(), scenes.nodes("s/b: n0 n1 n2 n3"), gangs, limits=PATIENT)
    assert [each.outcome for each in run.decisions] == [Outcome.PLACED, Outcome.PLACED, Outcome.UNPLACEABLE]
    nodes = [placed.node for each in run.decisions for placed in each.assignments]
    assert sorted(nodes) == ["n0", "n1", "n2", "n3"]
