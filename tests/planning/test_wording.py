"""The wording of messages: lists of names, and the pods that an incomplete gang waits for."""

import pytest

from planning.messages.wording import compressed, listed, more_pods


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["node-5"], "node-5"),
        (["node-8", "node-5", "node-7", "node-6"], "node-5..8"),
        (["node-9", "node-10", "node-11"], "node-9..11"),
        (["node-5", "node-7"], "node-5, node-7"),
        (["gpu-009", "gpu-010"], "gpu-009..010"),  # the zeros stay
        (["gpu-9", "gpu-010"], "gpu-9, gpu-010"),  # numbers written in two ways are no run
        (["r1-n1.example.com", "r1-n2.example.com"], "r1-n1.example.com..2.example.com"),
        (["a", "b"], "a, b"),
        (["r1-1", "r1-2", "r2-1", "r2-2"], "r1-1..2, r2-1..2"),
        ([f"n{i}" for i in range(0, 12, 2)], "n0, n2, n4, n6 and 2 more"),
        (["n1", "n1"], "n1"),
    ],
)
def test_consecutive_names_are_joined(names: list[str], text: str) -> None:
    assert compressed(names) == text


@pytest.mark.parametrize(("names", "text"), [(["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")])
def test_lists_end_in_and(names: list[str], text: str) -> None:
    assert listed(names) == text


def test_one_pod_is_no_pods() -> None:
    assert str(more_pods(3, 4)) == "1 more pod: 3 of 4 exist"
    assert str(more_pods(0, 2, "worker")) == "2 more pods of worker: 0 of 2 exist"
