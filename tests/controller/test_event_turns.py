"""The order in which namespaces' events are sent, which events are dropped, and which namespaces are forgotten."""

import queue

import pytest

from controller.telemetry.event_turns import FairMemory, FairQueue


def played(most: int, arrivals: str) -> tuple[str, str]:
    """Put one event for each namespace of `arrivals` into a queue of length `most`; return served and lost events."""
    lost: list[str] = []
    waiting: FairQueue[str] = FairQueue(most, lost.append)
    for number, namespace in enumerate(arrivals):
        waiting.put((namespace, f"{namespace}{number}"))
    waiting.put(None)
    served = []
    while (turn := waiting.get_nowait()) is not None:
        served.append(turn[1])
    return " ".join(served), " ".join(lost)


@pytest.mark.parametrize(
    ("most", "arrivals", "served", "lost"),
    [
        (9, "", "", ""),
        (9, "aaa", "a0 a1 a2", ""),
        (9, "aaaab", "a0 b4 a1 a2 a3", ""),
        (9, "aaabbc", "a0 b3 c5 a1 b4 a2", ""),
        (3, "aaaa", "a0 a1 a2", "a3"),
        (3, "aaab", "a0 b3 a1", "a2"),  # a loses the last one it has waiting
        (3, "aabb", "a0 b2 a1", "b3"),  # no namespace has more waiting than b would have
        (2, "abc", "a0 b1", "c2"),
        (4, "aaaabbbb", "a0 b4 a1 b5", "a3 a2 b6 b7"),
    ],
)
def test_namespaces_take_turns_and_whoever_has_most_waiting_loses(
    most: int, arrivals: str, served: str, lost: str
) -> None:
    assert played(most, arrivals) == (served, lost)


def test_the_end_comes_last_and_stays() -> None:
    waiting: FairQueue[str] = FairQueue(9, lambda _: None)
    with pytest.raises(queue.Empty):
        waiting.get(timeout=0.01)
    waiting.put(None)
    waiting.put(("a", "x"))
    assert [waiting.get_nowait() for _ in range(3)] == [("a", "x"), None, None]


def test_whoever_is_remembered_most_forgets_his_oldest() -> None:
    known: FairMemory[int, str] = FairMemory(4)
    for number in range(10):
        known["a", number] = "x"
    assert sorted(known) == [("a", 6), ("a", 7), ("a", 8), ("a", 9)]
    known["b", 0] = "x"
    known["b", 0] = "y"
    assert sorted(known) == [("a", 7), ("a", 8), ("a", 9), ("b", 0)]
    assert known["b", 0] == "y"
    assert known.pop(("b", 0)) == "y"
    assert known.get(("b", 0)) is None
    assert len(known) == 3
