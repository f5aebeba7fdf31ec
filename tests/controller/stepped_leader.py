"""A controller whose rounds a test starts one by one: no round runs beside the test.

Only the watches run in threads. `SteppedLeader.step` first waits until the cache shows all that the API server has
stored, except what `LocalApi.silence` holds back. Time passes only in `step` and `wait`, for the API server too: a
slow machine reaches the same times.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from controller_scene import SETTLED, Scene
from inline_executors import HeldExecutor, InlineExecutor
from local_api.direct import DirectTransport
from local_api.server import PATIENCE, LocalApi
from local_api.store import Store
from manual_clock import START, ManualClock

from cluster.caches.cache import ClusterCache
from controller.loop import Controller, LoopState, Outcome
from controller.scheduling.planning_queue import PlanningQueue
from controller.scheduling.restart_checks import RestartChecks
from controller.scheduling.single_slot_executor import Lanes
from controller.serving import Planners, Settings, controller_of
from controller.telemetry.metrics import Metrics
from controller.telemetry.recorder import Recorder
from controller.writes.writer import Writer
from gangs.dialects.protection import protection
from gangs.dialects.table import all_kinds
from solver.problem import Limits

PARTLY_SECONDS = 5.0
ROUND_SECONDS = 0.01
"""The duration of a round."""
STEPPED = replace(SETTLED, partly_seconds=PARTLY_SECONDS)
_WATCHED = ("pods", "gangs", "nodes", "poddisruptionbudgets", "topologies", "priorityclasses", "jobs")


@dataclass(slots=True)
class SteppedLeader:
    """One controller. `fast` is the planner's fast lane: questions wait there until `think`."""

    api: LocalApi
    cache: ClusterCache
    controller: Controller
    writer: Writer
    recorder: Recorder
    api_clock: ManualClock
    clock: ManualClock
    fast: HeldExecutor
    state: LoopState
    ahead: float = 0.0
    """Seconds by which the controller's clock is ahead of the API server's."""

    def step(self, times: int = 1) -> None:
        """Run rounds, each on a cache that shows everything that the API server has stored."""
        for _ in range(times):
            self.api.wait(self._shows_all, "the cache to show what is stored")
            self.api_clock.sleep(ROUND_SECONDS)
            self.clock.now = self.api_clock.now + self.ahead
            done = self.controller.step(self.state)
            assert done.outcome is Outcome.DONE, done

    def wait(self, seconds: float) -> None:
        """Advance the controller's clock by so many seconds."""
        self.ahead += seconds

    def think(self) -> None:
        """Let the planner answer its pending requests."""
        self.fast.run()

    def _shows_all(self) -> bool:
        latest: dict[str, int] = {}
        for event in self.api.store.history:
            latest[event.resource.plural] = event.version
        watched = [each for each in _WATCHED if each not in self.api.held]
        return all(self.cache.seen(plural) >= latest.get(plural, 0) for plural in watched)


def _api_clock(store: Store) -> ManualClock:
    """Replace the API server's clock by one that shows the same time and that only the test advances. Return it."""
    if not isinstance(store.clock, ManualClock):
        store.clock = ManualClock((store.clock.wall() - START).total_seconds())
    return store.clock


@contextmanager
def stepped(scene: Scene, *, ahead: float = 0.0, settings: Settings = STEPPED) -> Iterator[SteppedLeader]:
    """A controller that has just become leader and has run no round.

    :param ahead: seconds by which its clock is ahead of the API server's, as if that much time had passed.
    """
    transport, api_clock = DirectTransport(scene.api), _api_clock(scene.api.store)
    clock = ManualClock(api_clock.now + ahead)
    cache = ClusterCache(transport, all_kinds(), protecting=protection)
    writer, metrics, recorder = Writer(transport, clock=clock), Metrics(), Recorder(transport, instance="test")
    limits, fast = Limits(seconds=settings.solve_seconds), HeldExecutor()
    queue = PlanningQueue(limits, metrics, Lanes(fast, InlineExecutor()), clock=clock)
    planners = Planners(queue, RestartChecks(InlineExecutor(), limits, lambda: None, clock=clock))
    controller = controller_of(cache, writer, planners, recorder, metrics=metrics, settings=settings, clock=clock)
    cache.start()
    try:
        assert cache.wait_synced(PATIENCE), cache.unsynced()
        with cache.journal() as journal:
            state = controller.begin(journal)
            yield SteppedLeader(scene.api, cache, controller, writer, recorder, api_clock, clock, fast, state, ahead)
    finally:
        planners.close()
        writer.close()
        recorder.close()
        cache.stop()
