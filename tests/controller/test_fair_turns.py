"""The order of namespaces in which a round makes writes that are not urgent, and the time limit for them."""

from types import SimpleNamespace
from typing import cast

import pytest

from controller.reconcile_state import ReconcileState
from controller.status.fair_turns import HURRIED, LEISURELY, Turn, in_turns, turn_of


@pytest.mark.parametrize(
    ("some", "turns"),
    [
        ("", ""),
        ("a1", "a1"),
        ("a1 a2 a3", "a1 a2 a3"),
        ("a1 a2 a3 b1", "a1 b1 a2 a3"),
        ("a1 a2 b1 a3 c1 b2", "a1 b1 c1 a2 b2 a3"),
        ("b1 a1 a2", "b1 a1 a2"),  # the namespace whose first gang is the oldest begins
    ],
)
def test_one_of_each_namespace_after_the_other(some: str, turns: str) -> None:
    assert " ".join(in_turns(some.split(), lambda each: each[0])) == turns


def test_the_many_of_one_keep_nobody_waiting() -> None:
    some = [("flood", number) for number in range(5_000)] + [("small", number) for number in range(3)]
    turns = list(in_turns(some, lambda each: each[0]))
    assert max(turns.index(("small", number)) for number in range(3)) < 6
    assert sorted(turns) == some


@pytest.mark.parametrize(
    ("gang_state", "turn"),
    [
        ({"on_its_way": False, "deferred": False}, LEISURELY),
        ({"on_its_way": True, "deferred": False}, HURRIED),
        ({"on_its_way": False, "deferred": True}, HURRIED),
    ],
    ids=str,
)
def test_a_round_that_a_gang_waits_for_is_hurried(gang_state: dict[str, bool], turn: Turn) -> None:
    idle = SimpleNamespace(on_its_way=False, deferred=False)
    assert turn_of(cast("list[ReconcileState]", [idle, SimpleNamespace(**gang_state), idle])) == turn


def test_a_round_without_gangs_has_time() -> None:
    assert turn_of([]) == LEISURELY
    assert HURRIED.seconds < LEISURELY.seconds
    assert HURRIED.batch < LEISURELY.batch
