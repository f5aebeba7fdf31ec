"""The controller's metrics while gangs are planned, released and bound."""

from dataclasses import replace
from typing import Any

import pytest
from gang_builders import gang, placed, pod, refused
from hypothesis import given, settings
from hypothesis import strategies as st
from manual_clock import START, ManualClock
from prometheus_client.parser import text_string_to_metric_families

from controller.gang_status import Phase
from controller.release.next_step import Cause
from controller.telemetry.metrics import GangSample, Metrics
from gangs.model import GangKey

LLM = GangKey("koordinator", "default", "llm")
CREATED = "2026-11-21T09:00:00Z"
NINE = 1795251600.0
"""CREATED, in seconds since the epoch."""


def clock_since_nine() -> ManualClock:
    """A clock whose seconds are counted from CREATED."""
    clock = ManualClock()
    clock.step_wall(NINE - START.timestamp())
    return clock


def standing(phase: Phase, objective: tuple[dict[str, Any], ...] = ()) -> GangSample:
    return GangSample(LLM, phase, CREATED, {"objective": list(objective)})


def read(metrics: Metrics, name: str, **labels: str) -> float:
    """One sample; 0 where it has never been counted."""
    return metrics.registry.get_sample_value(name, labels) or 0.0


def counted_after(*steps: tuple[float, Phase]) -> Metrics:
    """A leader's numbers after rounds in which one gang stood so at these seconds."""
    clock = clock_since_nine()
    metrics = Metrics(clock=clock)
    with metrics.leading():
        metrics.stand([])
        for clock.now, phase in steps:
            metrics.stand([standing(phase)])
    return metrics


WAY = ((1.0, Phase.WAITING), (3.0, Phase.EVICTING), (4.0, Phase.EVICTING), (8.0, Phase.RELEASED), (9.0, Phase.PLACED))


@pytest.mark.parametrize(
    ("phase", "seconds"),
    [(Phase.WAITING, 2.0), (Phase.EVICTING, 5.0), (Phase.RELEASED, 1.0)],
    ids=str,
)
def test_each_phase_has_its_time_when_it_is_left(phase: Phase, seconds: float) -> None:
    name = "phalanx_gang_phase_duration_seconds_sum"
    assert read(counted_after(*WAY), name, dialect="koordinator", phase=phase.value) == seconds


def test_the_time_to_bound_runs_from_the_creation() -> None:
    metrics = counted_after(*WAY)
    assert read(metrics, "phalanx_gang_time_to_bound_seconds_sum", dialect="koordinator") == 9.0


def test_a_repaired_gang_is_not_bound_for_the_first_time() -> None:
    metrics = counted_after(*WAY, (20.0, Phase.RELEASED), (21.0, Phase.PLACED))
    assert read(metrics, "phalanx_gang_time_to_bound_seconds_count", dialect="koordinator") == 1


def test_what_a_new_leader_finds_has_no_time_that_anybody_knows() -> None:
    clock = clock_since_nine()
    metrics = Metrics(clock=clock)
    with metrics.leading():
        for clock.now, phase in WAY:
            metrics.stand([standing(phase)])
    labels = {"dialect": "koordinator"}
    assert read(metrics, "phalanx_gang_phase_duration_seconds_count", **labels, phase="Waiting") == 0
    assert read(metrics, "phalanx_gang_phase_duration_seconds_sum", **labels, phase="Evicting") == 5.0
    with metrics.leading():
        metrics.stand([standing(Phase.PLACED)])
    assert read(metrics, "phalanx_gang_time_to_bound_seconds_count", **labels) == 1


def test_gangs_are_counted_where_they_stand_and_no_more_once_another_leads() -> None:
    metrics = Metrics()
    with metrics.leading():
        metrics.stand([standing(Phase.PLACED)], invalid=[GangKey("kai", "default", "odd")])
        assert read(metrics, "phalanx_gangs", dialect="koordinator", phase="Placed") == 1
        assert read(metrics, "phalanx_gangs", dialect="kai", phase="Invalid") == 1
        assert read(metrics, "phalanx_leader") == 1
        metrics.stand([standing(Phase.WAITING)])
        assert read(metrics, "phalanx_gangs", dialect="koordinator", phase="Placed") == 0
    assert read(metrics, "phalanx_leader") == 0
    assert "phalanx_gangs{" not in metrics.text().decode()


def test_domains_beyond_the_proven_fewest_are_summed_by_level() -> None:
    objective = tuple(
        {"goal": goal, "value": value, "bound": bound}
        for goal, value, bound in (("victims", 2, 0), ("compactness/rack", 3, 1), ("compactness/spine", 1, 1))
    )
    metrics = Metrics()
    other = GangKey("koordinator", "default", "other")
    metrics.stand([standing(Phase.NOMINATED, objective), replace(standing(Phase.WAITING, objective), key=other)])
    assert read(metrics, "phalanx_domains_above_minimum", level="rack") == 2
    assert read(metrics, "phalanx_domains_above_minimum", level="spine") == 0


KEYS = [GangKey(dialect, "default", name) for dialect in ("kai", "koordinator") for name in "ab"]
ASKED = st.lists(st.tuples(st.sampled_from(("rack", "spine")), st.integers(0, 3)), max_size=2)
MOVES = st.lists(
    st.dictionaries(st.sampled_from(KEYS), st.none() | st.tuples(st.sampled_from(Phase), ASKED)), max_size=5
)


@settings(max_examples=60)
@given(moves=MOVES)
def test_what_changed_comes_to_the_same_as_all_there_is(
    moves: list[dict[GangKey, tuple[Phase, list[tuple[str, int]]] | None]],
) -> None:
    """In each step, `moves` has the state of some gangs (None: the gang is gone)."""
    told, anew, there = Metrics(), Metrics(), dict[GangKey, GangSample]()
    for step in moves:
        changed = [
            GangSample(
                key,
                now[0],
                CREATED,
                {"objective": [{"goal": f"compactness/{x}", "value": y, "bound": 0} for x, y in now[1]]},
            )
            for key, now in step.items()
            if now
        ]
        gone = [key for key, now in step.items() if not now]
        there = {**there, **{each.key: each for each in changed}}
        there = {key: each for key, each in there.items() if key not in gone}
        told.stand(changed, gone=gone)
        anew.stand(list(there.values()))
        assert how_many(told) == how_many(anew)


def how_many(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """How many gangs stand where, and how many domains too many they use."""
    families = (each for each in metrics.registry.collect() if each.name in _HOW_MANY)
    return {(each.name, *each.labels.values()): each.value for family in families for each in family.samples}


_HOW_MANY = ("phalanx_gangs", "phalanx_domains_above_minimum")


def test_answers_are_counted_by_their_proof_and_their_stages_timed() -> None:
    of = gang(pod("llm-0"), pod("llm-1"))
    metrics = Metrics()
    metrics.decided([replace(placed(of, "n0", "n1"), seconds={"snapshot": 0.25, "solve": 0.5}), refused(of)])
    assert read(metrics, "phalanx_plans_total", outcome="Placed", proof=placed(of, "n0", "n1").proof) == 1
    assert read(metrics, "phalanx_plans_total", outcome="Unplaceable", proof=refused(of).proof) == 1
    assert read(metrics, "phalanx_plan_duration_seconds_sum", stage="solve") == 0.5


def test_every_cause_is_there_before_it_happens() -> None:
    metrics = Metrics()
    metrics.invalidated(Cause.ROOM_LOST)
    metrics.evicted("kai")
    found = {each.value: read(metrics, "phalanx_replans_total", cause=each.value) for each in Cause}
    assert found == {each.value: float(each is Cause.ROOM_LOST) for each in Cause}
    assert 'phalanx_replans_total{cause="TimedOut"} 0.0' in metrics.text().decode()
    assert read(metrics, "phalanx_victims_total", dialect="kai") == 1


def test_the_text_is_prometheus_own_and_no_name_comes_twice() -> None:
    metrics = counted_after(*WAY)
    names = [family.name for family in text_string_to_metric_families(metrics.text().decode())]
    assert len(names) == len(set(names)) > 12
