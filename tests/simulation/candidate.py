"""One controller process: caches, Lease, and the real `Controller`, stepped in logical time."""

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Executor, Future
from contextlib import ExitStack
from functools import partial
from typing import Any

from local_api.resources import RESOURCES, address
from local_api.store import Event

from cluster.caches.cache import ClusterCache
from cluster.caches.journal import Journal
from controller.leadership.certificates import Keeping
from controller.leadership.election import Term, renew
from controller.leadership.lease import Lease, timing_of
from controller.loop import Controller, LoopState, Outcome
from controller.pace import AT_ONCE_SECONDS, GATHER, SETTLE
from controller.scheduling.planning_queue import PlanningQueue
from controller.scheduling.restart_checks import RestartChecks
from controller.scheduling.single_slot_executor import Lanes, Work
from controller.serving import Planners, Settings, controller_of
from controller.telemetry.metrics import Metrics
from controller.telemetry.recorder import Recorder
from controller.urgency import Urgency
from controller.writes.writer import Writer
from gangs.dialects.protection import protection
from gangs.dialects.table import all_kinds
from kube.keys import CONTROLLER_LEASE, SYSTEM_NAMESPACE
from kube.objects import Pod
from simulation.choices import Choices
from simulation.clock import MachineClock
from simulation.engine import Engine
from simulation.network import Network, Process
from simulation.objects import GANG_LABEL
from simulation.transport import SimulatedTransport
from simulation.watches import Feed, PlainFeed, WatchHub
from solver.problem import Limits

LEASE_SECONDS = 4.0
"""`controller.defaults.LEASE_SECONDS`."""
PARTLY_SECONDS = LEASE_SECONDS + 1.0
"""As `phalanx controller` sets it by default."""
PLAN_SECONDS = (0.01, 0.25, 2.0)
"""How long a plan takes: usual, slow, very slow."""
_LEASES = next(each for each in RESOURCES if each.plural == "leases")
_KINDS = all_kinds()
_AFTER_EXPIRY = 0.01
_MOST_STEPS = 10
"""Rounds at one instant of logical time. More are a busy loop, which ends in reality when enough real time is spent."""
_BUSY_SECONDS = 0.05
"""How long a busy loop lasts here."""
_PAUSES = {Urgency.NOW: AT_ONCE_SECONDS, Urgency.SOON: SETTLE.pause(0.0), Urgency.LATER: GATHER.pause(0.0)}


class InlineExecutor(Executor):
    """Runs each call before `submit` returns."""

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        """Run it. An error is the future's, except one that ends the process."""
        future: Future[Any] = Future()
        try:
            future.set_result(call(*arguments, **options))
        except Exception as error:  # noqa: BLE001 - the caller sees it as the future's
            future.set_exception(error)
        return future


class SimulatedExecutor:
    """A planning lane whose answer comes after a time that the seed decides."""

    def __init__(self, process: Process, choices: Choices, name: str, answered: Callable[[], None]) -> None:
        self.weights: tuple[int, ...] = (1, 0, 0)
        self.seconds: float | None = None
        """How long an answer takes; None: as the seed decides."""
        self.idle = True
        self._process, self._choices, self._answered = process, choices, answered
        self._site = f"{process.name}/{name}"

    def submit(self, work: Work) -> None:
        """Do the work later."""
        self.idle = False
        seconds = self.seconds
        if seconds is None:
            seconds = self._choices.one_of(self._site, PLAN_SECONDS, self.weights)
        self._process.later(seconds, lambda: self._run(work))

    def _run(self, work: Work) -> None:
        try:
            work()
        finally:
            self.idle = True
        self._answered()

    def close(self) -> None:
        """There is nothing to end."""


class Candidate:
    """A controller process from its start to its end. It becomes leader when it gets the Lease."""

    def __init__(
        self,
        name: str,
        engine: Engine,
        network: Network,
        hub: WatchHub,
        choices: Choices,
        clock: MachineClock,
        trace: Callable[[str], None],
        on_end: Callable[["Candidate"], None],
        on_busy: Callable[[str], None],
        on_round: Callable[[float, Mapping[str, Collection[str]]], None],
    ) -> None:
        """Begin nothing yet.

        :param on_round: called after each complete round. Its arguments are the time when the round began, and for each
            gang the uids of the members that the candidate's cache showed as running then.
        """
        self._on_busy, self._on_round = on_busy, on_round
        self.process = Process(name, engine, on_crash=lambda: self._ended(on_end))
        self.clock = clock
        self.plan_weights: tuple[int, ...] = (1, 0, 0)
        self.forgets = False
        """Whether it takes the scheduler for one before 1.37 (`World.forgets`)."""
        self.leading = False
        self.failures: list[str] = []
        self._engine, self._hub, self._choices, self._trace = engine, hub, choices, trace
        self._transport = SimulatedTransport(network, self.process)
        self.cache = ClusterCache(self._transport, _KINDS, protecting=protection, clock=clock)
        self._timing = timing_of(LEASE_SECONDS)
        self._lease = Lease(self._transport, name, SYSTEM_NAMESPACE, CONTROLLER_LEASE, self._timing, clock=clock)
        self._term: Term | None = None
        self._controller: Controller | None = None
        self._state: LoopState | None = None
        self._journal: Journal
        self._writer: Writer
        self._office = ExitStack()
        self._next = float("inf")
        self._stepping = False
        self._steps, self._last_step, self._not_before = 0, -1.0, 0.0
        self._electing = False
        self._expires, self._tries = 0.0, 0
        self._metrics = Metrics(clock=clock)
        self._recorder = Recorder(self._transport, instance=name, clock=clock, threaded=False)
        self._recording = False
        self._planners = self._planners_of()

    def _planners_of(self) -> Planners:
        limits = Limits(seconds=10.0)
        fast, slow, restarts = (
            SimulatedExecutor(self.process, self._choices, each, self._answered)
            for each in ("prompt", "patient", "restart")  # names of random streams: other names change every seed's run
        )
        self.lanes = fast, slow, restarts
        return Planners(
            PlanningQueue(limits, self._metrics, Lanes(fast, slow), clock=self.clock),
            RestartChecks(restarts, limits, clock=self.clock),
        )

    def start(self) -> None:
        """List everything, then wait for the Lease."""
        for lane in self.lanes:
            lane.weights = self.plan_weights
        for reflector in self.cache.reflectors:
            if address(reflector.name, self._hub.api.served) is None:
                while not reflector.synced:
                    reflector.list_once()
                continue
            feed = Feed(self._hub, self.process, reflector, self._changed)
            self._hub.add(feed)
            self.process.later(0.0, feed.begin)
        self._hub.add(PlainFeed(self._hub, self.process, _LEASES, self._lease_changed))
        self.process.later(0.01, self._await_synced)

    def _await_synced(self) -> None:
        if self.cache.synced():
            self.process.lists_slowly = True
            self._elect()
        else:
            self.process.later(0.05, self._await_synced)

    def _lease_changed(self, event: Event) -> None:
        """Look at the Lease whenever another candidate writes it, and when it expires."""
        if not self.leading and self.cache.synced():
            lasting = float(event.object["spec"].get("leaseDurationSeconds") or LEASE_SECONDS)
            self._expires = self._engine.now + lasting
            self._elect()

    def _elect(self) -> None:
        """Try to get the Lease; if that fails, try again when it expires."""
        if self.leading or self._electing:
            return
        self._electing = True
        self._tries += 1
        this_try = self._tries
        try:
            begun = self.clock.since_boot()
            if self._lease.take():
                self._lead(Term(self._timing.renew_deadline, begun, self.clock.since_boot))
            else:
                left = self._expires - self._engine.now
                seconds = left + 2 * _AFTER_EXPIRY if left > 0 else self._timing.retry
                self.process.later(seconds, partial(self._elect_if_latest, this_try))
        finally:
            self._electing = False

    def _elect_if_latest(self, this_try: int) -> None:
        if self._tries == this_try:
            self._elect()

    def _lead(self, term: Term) -> None:
        self._trace(f"{self.process.name} leads")
        self.leading, self._term = True, term
        fenced = self._transport.within(term.allowance)
        self._writer = Writer(fenced, executor=InlineExecutor(), clock=self.clock)
        settings = Settings(
            kubeconfig=None,
            identity=self.process.name,
            solve_seconds=10.0,
            lease_seconds=LEASE_SECONDS,
            partly_seconds=PARTLY_SECONDS,
            keeping=Keeping(None),
        )
        self._controller = controller_of(
            self.cache,
            self._writer,
            self._planners,
            self._recorder,
            metrics=self._metrics,
            settings=settings,
            forgets=lambda: self.forgets,
            clock=self.clock,
        )
        self._office = ExitStack()
        self._journal = self._office.enter_context(self.cache.journal())
        self._state = self._controller.begin(self._journal)
        self._next = float("inf")  # a round that was due in an earlier term is not
        self._schedule(self._engine.now)
        self.process.later(self._timing.retry, lambda: self._renew(term))
        self.process.later(term.left(), lambda: self._watch(term))

    def _renew(self, term: Term) -> None:
        if self._term is not term or term.left() <= 0:
            return
        renew(self._lease, term, self.clock)
        self.process.later(self._timing.retry, lambda: self._renew(term))

    def _watch(self, term: Term) -> None:
        """Notice the end of the term."""
        if self._term is not term:
            return
        if (left := term.left()) <= 0:
            if not self._stepping:
                self._resign()
        else:
            self.process.later(left + _AFTER_EXPIRY, lambda: self._watch(term))

    def _resign(self) -> None:
        assert self._term is not None
        self._trace(f"{self.process.name} leads no more")
        self._term.end()
        self._term, self.leading, self._controller = None, False, None
        self._office.close()
        self._writer.close()
        self._lease.release()
        self.process.later(self._timing.retry, self._elect)

    def _changed(self) -> None:
        """A watch has brought something: the next round may be due sooner."""
        if self._stepping or not self.leading or self._state is None:
            return
        with self.cache.still():
            news = self._journal.news()
        urgency = self._state.urgencies.of(news)
        if urgency is not Urgency.NEVER:
            self._schedule(self._engine.now + _PAUSES[urgency])

    def _answered(self) -> None:
        late = self._state is not None and self._state.due.late
        if self.leading and not self._stepping and not late:
            self._schedule(self._engine.now)

    def _schedule(self, at: float) -> None:
        at = max(at, self._engine.now, self._not_before)
        if at < self._next:
            self._next = at
            self._engine.at(at, lambda: self.process.do(self._step))

    def _step(self) -> None:
        if not self.leading or self._stepping or self._engine.now < self._next or self._controller is None:
            return
        assert self._term is not None
        assert self._state is not None
        self._next, self._stepping = float("inf"), True
        self._steps = self._steps + 1 if self._engine.now == self._last_step else 0
        self._last_step = self._engine.now
        if self._steps > _MOST_STEPS:
            self._on_busy(f"{self.process.name} runs {_MOST_STEPS} rounds at one instant")
            self._not_before = self._engine.now + _BUSY_SECONDS
        begun, pods = self._engine.now, self.cache.pods()
        try:
            outcome = self._controller.step(self._state)
        finally:
            self._stepping = False
        if self._term.left() <= 0:
            self._resign()
            return
        if outcome.outcome not in (Outcome.FAILED, Outcome.LATE):
            self._on_round(begun, _running(pods))
        if not self._recording:
            self._recording = True
            self.process.later(0.0, self._record)
        pause = self._writer.pause
        if outcome.outcome is Outcome.FAILED:
            self.failures.append(f"{self.process.name}: a round failed")
            self._state = self._controller.begin(self._journal)
            self._schedule(self._engine.now + max(pause, 0.5))
            return
        if outcome.due < float("inf"):
            self._schedule(self._engine.now + max(pause, outcome.due - self.clock.monotonic(), 0.0))
        if self._planners.planning_queue.answered() and not self._state.due.late:
            self._schedule(self._engine.now + pause)
        if self.cache.version() != self._state.due.version and not pause:
            self._changed()

    def _record(self) -> None:
        self.clock.waiting = self._record_later
        try:
            self._recorder.write_queued()
        finally:
            self.clock.waiting, self._recording = None, False

    def _record_later(self, seconds: float) -> None:
        """The recorder's thread waits; everything else goes on."""
        self.clock.waiting = None
        self._engine.run_until(self._engine.now + seconds)
        self.process.check()
        self.clock.waiting = self._record_later

    def _ended(self, on_end: Callable[["Candidate"], None]) -> None:
        self.leading, self._term = False, None
        self._hub.drop(self.process)
        on_end(self)


def _running(pods: Iterable[Pod]) -> Mapping[str, Collection[str]]:
    """Return the uids of the running members of each gang, by namespace and name of the gang."""
    found: dict[str, list[str]] = {}
    for pod in pods:
        gang = pod.metadata.labels.get(GANG_LABEL)
        if gang and pod.bound and not pod.terminating and not pod.finished:
            found.setdefault(f"{pod.metadata.namespace}/{gang}", []).append(pod.metadata.uid)
    return found
