"""All gangs for forecasts: read anew as long as that is cheap, and never so often that little else gets done."""

from collections.abc import Iterator

from pictures import StillPicture, pod, pod_group

from gangs.dialects.reading import described
from gangs.manifests import key_of
from gangs.sources import Sources
from webhook.forecasts.readings import CHEAP_SECONDS, SHARE, RecentGangs

MEMBERS = [pod("p", labels={"pod-group.scheduling.sigs.k8s.io": "llm"})]


class Asked(StillPicture):
    """A picture that counts how often it is asked for everything."""

    times = 0

    def sources(self) -> Sources:
        """All that was given."""
        self.times += 1
        return super().sources()


class Clocks:
    """A clock that is set by hand, and a processor on which each reading costs as much."""

    def __init__(self, cost: float) -> None:
        self.now = 100.0
        self._spent = self._costs(cost)

    def read(self) -> float:
        """The time."""
        return self.now

    def spent(self) -> float:
        """What has been used of the processor."""
        return next(self._spent)

    def _costs(self, cost: float) -> Iterator[float]:
        total = 0.0
        while True:
            yield total
            total += cost
            yield total


def test_cheap_readings_are_made_anew_every_time() -> None:
    clocks, picture = Clocks(CHEAP_SECONDS / 2), Asked([pod_group()], pods=MEMBERS)
    recent = RecentGangs(clocks.read, clocks.spent)
    for _ in range(3):
        assert [each.key.name for each in recent.of(picture).gangs] == ["llm"]
    assert picture.times == 3


def test_a_dear_one_is_kept_for_a_while_that_its_cost_decides() -> None:
    clocks, picture = Clocks(2.0), Asked([pod_group()], pods=MEMBERS)
    recent = RecentGangs(clocks.read, clocks.spent)
    first = recent.of(picture)
    clocks.now += SHARE * 2.0 - 1
    assert recent.of(picture) is first
    assert picture.times == 1
    clocks.now += 2
    assert [each.key.name for each in recent.of(picture).gangs] == ["llm"]
    assert picture.times == 2


def test_the_gang_of_one_object_is_found_without_reading_the_others() -> None:
    """What a forecast asks about its own object: the others are not read for it, whatever is wrong with them."""
    objects = [pod_group(f"g{number}", number) for number in range(5)]
    sources = Sources(objects={key_of(each): each for each in objects})
    for number, group in enumerate(objects):
        gang = described(group, sources)
        assert (gang and (gang.key.name, gang.min_member)) == (("g" + str(number), number) if number else None)
    assert described({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "g1"}}, sources) is None
