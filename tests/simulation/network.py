"""The API server as processes reach it: requests take time, fail, are carried out without an answer, or kill."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import urllib3
from local_api.direct import Answer
from local_api.server import LocalApi, Request
from local_api.store import RefusedError

from simulation.choices import Choices
from simulation.engine import Action, Engine

LATENCIES = (0.002, 0.0, 0.03, 0.4)
"""Seconds that a request or an answer travels: usual, none, slow, very slow."""
_LATENCY_WEIGHTS = (80, 10, 8, 2)
RESTART_SECONDS = (1.0, 0.3, 4.0, 15.0)
"""How long a crashed process takes to start again."""
FREEZE_SECONDS = (5.5, 1.0, 8.0)
"""How long a process is frozen. The first is longer than the lease of 4 s."""


class CrashedError(BaseException):
    """The process ends at this instruction. No `except Exception` of product code may catch it."""


@dataclass(frozen=True, slots=True)
class Faults:
    """How often a request fails, in requests of 1000; the rest succeed."""

    conflict: int = 0
    too_many: int = 0
    internal: int = 0
    answer_lost: int = 0
    unreachable: int = 0
    crash_before: int = 0
    crash_after: int = 0
    freeze: int = 0

    @property
    def weights(self) -> tuple[int, ...]:
        """The weights of `FATES`."""
        chances = (
            *(self.conflict, self.too_many, self.internal, self.answer_lost),
            *(self.unreachable, self.crash_before, self.crash_after, self.freeze),
        )
        return 1000 - sum(chances), *chances


NO_FAULTS = Faults()
FINE, CONFLICT, TOO_MANY, INTERNAL, ANSWER_LOST, UNREACHABLE, CRASH_BEFORE, CRASH_AFTER, FREEZE = range(9)
"""The fates of a request, in the order of `Faults.weights`."""
NAMES = ("", "409", "429", "500", "answer lost", "unreachable", "crash before", "crash after", "freeze")
_REFUSALS = {
    CONFLICT: RefusedError(409, "Conflict", "simulated: the object has been modified"),
    TOO_MANY: RefusedError(429, "TooManyRequests", "simulated: too many requests", retryAfterSeconds=1),
    INTERNAL: RefusedError(500, "InternalError", "simulated: etcd has no leader"),
}


@dataclass
class Process:
    """A program that runs somewhere. `do` runs its code; a frozen process runs it when it thaws, a dead one never."""

    name: str
    engine: Engine
    alive: bool = True
    frozen: bool = False
    lists_slowly: bool = False
    """Whether the answer to a list travels. While it does, it grows old."""
    on_crash: Callable[[], None] = lambda: None
    _held: list[Action] = field(default_factory=list)

    def do(self, action: Action) -> None:
        """Run code of the process. If that ends the process, `on_crash` follows."""
        if not self.alive:
            return
        if self.frozen:
            self._held.append(action)
            return
        try:
            action()
        except CrashedError:
            if self.alive:
                self.end()

    def later(self, seconds: float, action: Action) -> None:
        """Run code of the process after so many seconds."""
        self.engine.after(seconds, lambda: self.do(action))

    def end(self) -> None:
        """End the process. A request that it has in flight still arrives."""
        self.alive = False
        self._held.clear()
        self.on_crash()

    def freeze(self, seconds: float) -> None:
        """Let the rest of the simulation go on for so long, while this process stands still."""
        self.frozen = True
        self.engine.run_until(self.engine.now + seconds)
        self.thaw()

    def thaw(self) -> None:
        """Let the process go on."""
        self.frozen = False
        held, self._held = self._held, []
        for action in held:
            self.engine.after(0.0, partial(self.do, action))

    def check(self) -> None:
        """Raise `CrashedError` if the process has ended meanwhile."""
        if not self.alive:
            raise CrashedError


@dataclass(slots=True)
class Sent:
    """A request that was carried out for a process, with the store's version before and after it."""

    begun: float
    """When the process sent it."""
    time: float
    """When it arrived."""
    process: str
    request: Request
    code: int
    before: int
    after: int


class Network:
    """Between the processes and the API server. `faults` may change at any time."""

    def __init__(self, api: LocalApi, engine: Engine, choices: Choices, trace: Callable[[str], None]) -> None:
        self.api = api
        self.engine = engine
        self.choices = choices
        self.faults = NO_FAULTS
        self.lease_faults = NO_FAULTS
        self.latencies = True
        self.cut: set[str] = set()
        """Names of processes that do not reach the API server."""
        self.before_write: Callable[[Process, Request], None] = lambda _process, _request: None
        """Runs before each write: directed schedules act there."""
        self.after_write: Callable[[Process, Request], None] = lambda _process, _request: None
        self.on_fault: Callable[[float], None] = lambda _seconds: None
        """Called with the seconds that a fault lasts."""
        self.on_sent: Callable[[Sent], None] = lambda _sent: None
        self._trace = trace

    def send(self, process: Process, request: Request, allowance: Callable[[], float] | None) -> Answer:
        """Carry out a request. Raises as urllib3 does, and whatever `allowance` raises."""
        process.check()
        if request.method == "GET":
            answer = self._arrived(process, request, FINE, self.engine.now)
            if process.lists_slowly:
                self._travel(process)
            process.check()
            return answer
        fate = self._fate(process, request)
        self._before(process, request, fate)
        if allowance is not None:
            allowance()
        begun = self.engine.now
        self._travel(process)
        answer = self._arrived(process, request, fate, begun)
        self.after_write(process, request)
        if fate == CRASH_AFTER:
            self._crash(process, f"after {request}")
        self._travel(process)
        process.check()
        if fate == ANSWER_LOST:
            raise urllib3.exceptions.ProtocolError("simulated: connection reset while reading")
        return answer

    def _before(self, process: Process, request: Request, fate: int) -> None:
        """Freeze or end the process before it sends a write, if that is its fate."""
        self.before_write(process, request)
        process.check()
        if fate == FREEZE:
            seconds = self.choices.one_of(f"{process.name}/freeze", FREEZE_SECONDS)
            self._trace(f"{process.name} freezes for {seconds:g} s before {request}")
            self.on_fault(seconds)
            process.freeze(seconds)
            process.check()
        elif fate == CRASH_BEFORE:
            self._crash(process, f"before {request}")
        elif fate != FINE:
            self.on_fault(0.0)

    def _fate(self, process: Process, request: Request) -> int:
        lease = "/leases" in request.path
        faults = self.lease_faults if lease else self.faults
        if faults is NO_FAULTS:
            return FINE
        return self.choices.pick(f"{process.name}/{'renewal' if lease else 'write'}", faults.weights)

    def _crash(self, process: Process, when: str) -> None:
        self._trace(f"{process.name} crashes {when}")
        self.on_fault(0.0)
        process.end()
        raise CrashedError

    def _travel(self, process: Process) -> None:
        if self.latencies:
            seconds = self.choices.one_of(f"{process.name}/latency", LATENCIES, _LATENCY_WEIGHTS)
            self.engine.run_until(self.engine.now + seconds)

    def _arrived(self, process: Process, request: Request, fate: int, begun: float) -> Answer:
        """Carry out a request that the network lets through."""
        if fate == UNREACHABLE or process.name in self.cut:
            raise urllib3.exceptions.ProtocolError("simulated: connection reset")
        store = self.api.store
        before = store.version
        refusal = _REFUSALS.get(fate)
        answer: Answer
        if refusal is not None:
            answer = refusal.code, refusal.headers, refusal.body
        else:
            served = self.api.serve(request)
            assert served is not None
            answer = served
        if request.method != "GET":
            sent = Sent(begun, self.engine.now, process.name, request, answer[0], before, store.version)
            self._trace(f"{process.name} {request} → {answer[0]} {NAMES[fate]}".rstrip())
            self.on_sent(sent)
            self.engine.after_each()
        return answer
