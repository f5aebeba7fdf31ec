"""Executors under the control of a test: they do their work at once, or when the test runs them."""

from controller.scheduling.single_slot_executor import Lanes, Work


class InlineExecutor:
    """An executor that does its work before `submit` returns."""

    idle = True

    def submit(self, work: Work) -> None:
        """Do it."""
        work()

    def close(self) -> None:
        """There is nothing to end."""


class HeldExecutor:
    """An executor that runs its work only when the test calls `run`."""

    def __init__(self) -> None:
        self.works: list[Work] = []

    @property
    def idle(self) -> bool:
        """Whether nothing is left to do."""
        return not self.works

    def submit(self, work: Work) -> None:
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
    return Lanes(InlineExecutor(), InlineExecutor())
