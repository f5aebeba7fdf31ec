"""The order in which requests get threads: round-robin over the sources.

The source with the most requests is refused first.
"""

import asyncio

import pytest

from serving.turns import OverdrawnError, OverloadedError, Turns


def played(threads: int, waiting: int, arrivals: str, most_each: int | None = None) -> tuple[str, str]:
    """Return the sources that got a thread, in order, and the sources that were refused.

    The sources of `arrivals` come one after the other, and each keeps its thread until all have come.
    """

    async def play() -> tuple[str, str]:
        turns, served, refused = Turns(threads, waiting, most_each), [], []
        all_here = asyncio.Event()

        async def request(source: str) -> None:
            try:
                async with turns.turn(source):
                    served.append(source)
                    await all_here.wait()
            except OverloadedError:
                refused.append(source)

        tasks = []
        for source in arrivals:
            tasks.append(asyncio.create_task(request(source)))
            await asyncio.sleep(0)
        all_here.set()
        await asyncio.gather(*tasks)
        return "".join(served), "".join(refused)

    return asyncio.run(play())


@pytest.mark.parametrize(
    ("threads", "waiting", "arrivals", "served", "refused"),
    [
        (1, 9, "aaa", "aaa", ""),
        (1, 9, "aaaab", "aabaa", ""),  # b waits for one of a's four, not for all
        (1, 9, "aaabbc", "aabcab", ""),
        (2, 9, "aaaab", "aaaba", ""),
        (1, 2, "aaaa", "aaa", "a"),
        (1, 2, "aaab", "aab", "a"),  # a loses the last one it has waiting
        (1, 2, "aabb", "aab", "b"),  # no source has more waiting than b would have
        (1, 3, "aaaabb", "aaba", "ab"),
    ],
)
def test_sources_take_turns(threads: int, waiting: int, arrivals: str, served: str, refused: str) -> None:
    assert played(threads, waiting, arrivals) == (served, refused)


def test_of_one_source_no_more_than_so_many_are_answered_at_a_time() -> None:
    assert played(4, 0, "aaabbb", most_each=2) == ("aabb", "ab")
    assert played(1, 9, "aaab", most_each=2) == ("aab", "a"), "those who wait for a thread are among them"


def test_a_source_of_which_nothing_is_left_is_forgotten() -> None:
    async def play() -> Turns:
        turns = Turns(2, 0, most_each=1)
        for source in "aba":
            await _through(turns, source)
        async with turns.turn("a"):
            with pytest.raises(OverdrawnError):
                await _through(turns, "a")
        return turns

    assert not asyncio.run(play())._of_each  # noqa: SLF001 -- what is remembered is not told


def test_who_goes_away_while_waiting_leaves_no_place_taken() -> None:
    async def play() -> None:
        turns = Turns(1, 1)
        async with turns.turn("a"):
            waiting = asyncio.create_task(_through(turns, "b"))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.sleep(0)
            other = asyncio.create_task(_through(turns, "c"))
            await asyncio.sleep(0)
            assert not other.done()
        await other
        await _through(turns, "d")

    asyncio.run(play())


def test_who_is_cancelled_as_the_turn_comes_hands_it_on() -> None:
    async def play() -> None:
        turns = Turns(1, 2)
        async with turns.turn("a"):
            first, second = (asyncio.create_task(_through(turns, source)) for source in "bc")
            await asyncio.sleep(0)
        first.cancel()  # its turn has come, and it has not run yet
        await asyncio.wait_for(second, 1)
        await asyncio.wait_for(_through(turns, "d"), 1)
        assert (first.cancelled(), second.cancelled()) == (True, False)

    asyncio.run(play())


async def _through(turns: Turns, source: str) -> None:
    async with turns.turn(source):
        pass
