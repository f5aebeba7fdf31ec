"""A member that no node could take holds its whole gang back: a foreign scheduling gate, or a claim that is missing."""

from dataclasses import replace
from typing import Any

import pytest
import scenes

from planning.decision import Outcome
from planning.planner import plan_gang
from planning.scheduler_rules.holdups import holdups

GATE = {"schedulingGates": [{"name": "example.com/quota"}]}
CLAIM: dict[str, Any] = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}]}


@pytest.mark.parametrize(
    ("spec", "awaited"),
    [
        (GATE, "gate example.com/quota to be taken from pod pair-1"),
        (CLAIM, "PersistentVolumeClaim default/missing"),
    ],
    ids=["a foreign gate", "a missing claim"],
)
def test_the_gang_waits_and_names_what_it_waits_for(spec: dict[str, Any], awaited: str) -> None:
    pods = [scenes.pod("pair-0", gang="llm"), scenes.pod("pair-1", gang="llm", **spec)]
    (gang,), snapshot, topologies = scenes.picture([*scenes.nodes(), scenes.gang(minMember=2), *pods])
    watched = replace(snapshot, version="1")
    assert holdups(gang, watched) == [awaited]
    decision = plan_gang(gang, watched, topologies)
    assert decision.outcome is Outcome.WAITING
    assert awaited in decision.message


def test_a_file_names_no_claims_so_that_none_is_missed() -> None:
    (gang,), snapshot, _ = scenes.picture(
        [*scenes.nodes(), scenes.gang(minMember=1), scenes.pod("pair-1", gang="llm", **CLAIM)]
    )
    assert holdups(gang, snapshot) == []
