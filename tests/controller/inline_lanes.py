"""Planning lanes under the control of a test: they do their work at once, or when the test runs them."""

from controller.scheduling.lanes import Lanes, Work


class InlineLane:
    """Does its work before `do` returns."""

    idle = True

    def do(self, work: Work) -> None:
        """Do it."""
        work()

    def close(self) -> None:
        """There is nothing to end."""


class HeldLane:
    """A planning lane that runs its work only when the test calls it."""

    def __init__(self) -> None:
        self.works: list[Work] = []

    @property
    def idle(self) -> bool:
        """Whether nothing is left to do."""
        return not self.works

    def do(self, work: Work) -> None:
        """Keep it for later."""
        assert self.idle
        self.works.append(work)

    def run(self) -> None:
        """Run the work that was submitted."""
        for work in self.works:
            work()
        self.works = []

    def close(self) -> None:
        """There is nothing to end."""


def inline() -> Lanes:
    """Return lanes that answer every request before the planner continues."""
    return Lanes(InlineLane(), InlineLane())
