"""The order in which callers may solve when one solve runs at a time: no caller takes all the time."""

import threading
from contextlib import suppress

import pytest
from waiting import PATIENCE_SECONDS, wait_for

from webhook.forecasts.slots import MOST_KNOWN, BusyError, SolveSlot


def test_who_asks_again_and_again_goes_after_those_who_solved_longer_ago() -> None:
    """Greedy is being solved and waits with one more request. Modest arrives later."""
    slot, order, all_came = SolveSlot(), list[str](), threading.Event()
    threads = []

    def ask(who: str, name: str) -> None:
        with slot.taken(PATIENCE_SECONDS, who):
            order.append(name)
            all_came.wait(PATIENCE_SECONDS)

    for came, (who, name) in enumerate((("greedy", "first"), ("greedy", "second"), ("modest", "third")), start=1):
        threads.append(threading.Thread(target=ask, args=(who, name)))
        threads[-1].start()
        wait_for(lambda came=came: len(order) + len(slot._queue) == came, name)  # type: ignore[misc] # noqa: SLF001
    all_came.set()
    for each in threads:
        each.join()
    assert order == ["first", "third", "second"]


def test_nobody_takes_all_the_places_of_those_who_wait() -> None:
    slot, over = SolveSlot(waiting=4, most_each=2), threading.Event()

    def ask(who: str) -> None:
        with suppress(BusyError), slot.taken(PATIENCE_SECONDS, who):
            over.wait(PATIENCE_SECONDS)

    crowd = [threading.Thread(target=ask, args=("greedy",)) for _ in range(2)]
    for each in crowd:
        each.start()
    wait_for(lambda: slot._of_each["greedy"] == 2)  # noqa: SLF001 -- who waits is not told
    with (
        pytest.raises(BusyError, match="2 of your requests are being solved or wait"),
        slot.taken(1, "greedy"),
    ):
        pass
    with pytest.raises(BusyError, match="not free in time"), slot.taken(0.05, "modest"):
        pass
    over.set()
    for each in crowd:
        each.join()
    with slot.taken(PATIENCE_SECONDS, "greedy") as left:
        assert 0 < left <= PATIENCE_SECONDS


def test_admission_is_one_of_those_who_take_turns() -> None:
    """Admission has no limit of its own, because the API server limits its waiting requests."""
    slot, over = SolveSlot(waiting=4), threading.Event()

    def ask() -> None:
        with slot.taken(PATIENCE_SECONDS):
            over.wait(PATIENCE_SECONDS)

    crowd = [threading.Thread(target=ask) for _ in range(5)]
    for each in crowd:
        each.start()
    wait_for(lambda: slot._of_each.total() == 5)  # noqa: SLF001 -- who waits is not told
    with pytest.raises(BusyError, match="too many requests wait"), slot.taken(1):
        pass
    over.set()
    for each in crowd:
        each.join()


def test_only_so_many_callers_are_remembered() -> None:
    slot = SolveSlot()
    for number in range(MOST_KNOWN + 10):
        with slot.taken(1, f"caller-{number}"):
            pass
    assert (len(slot._last), len(slot._of_each)) == (MOST_KNOWN, 0)  # noqa: SLF001 -- what is remembered is not told
