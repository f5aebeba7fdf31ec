"""Which gangs are planned, in which order, and what is remembered of the answers. Rounds never wait for one.

Planning goes on beside the rounds, in two lanes (docs/decisions/0008): in the prompt one every gang that needs a plan
gets an answer within seconds; who could not be placed, or not proven to be placed best, in that time goes on in the
patient one, with all the time there is, and holds nobody up. A round takes up the plans that were found since the last
one, as far as they still stand.

Nothing here is state: a no is forgotten when the room in the cluster or the request changes, and a controller that is
started again plans again.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from zlib import crc32

from controller.cluster_view import ClusterView
from controller.scheduling.lanes import Lane
from controller.scheduling.questions import FAULTY, Answer, Question, answers
from controller.scheduling.standing_noes import Basis, Fuller
from controller.scheduling.taking import Taking, ground_of
from controller.telemetry.metrics import Metrics
from gangs.model import Gang, GangKey
from kube.objects import Pod
from planning.decision import Decision, Outcome
from planning.framing.priorities import with_priorities
from planning.planner import behind_in_line, in_order, waiting
from solver.plan import Proof
from solver.problem import Limits

LOG = logging.getLogger(__name__)

PROMPT_SECONDS = 3.0
"""What one gang, or those of one priority that compete, may take where others wait."""
QUIET_SECONDS = 1.0
"""Nothing is said of a gang that has been planned for less than this: it will have its answer soon."""
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
HOLD_SECONDS = 2.0
"""Seconds between two plans for a gang that gets a no again and again in a cluster that keeps changing; the last one
for a gang whose plan was refused by a disruption budget."""
FIRST_UNPROVEN_PAUSE = 5.0
LONGEST_UNPROVEN_PAUSE = 60.0
"""The same after a no that could not be proven. It is at least four times as long as that took."""
FRESH_SECONDS = 60.0
"""About so long a no stands while the cluster only becomes fuller; then it is given anew, with the day's figures."""
_SHARE_OF_TIME = 4


@dataclass(frozen=True, slots=True)
class Lanes:
    """Where questions are answered, beside the rounds."""

    prompt: Lane
    patient: Lane

    def close(self) -> None:
        """Answer no question any more."""
        self.prompt.close()
        self.patient.close()


@dataclass(slots=True)
class _Refusal:
    """A no, the request and the ground it was given on, and when it may be asked again.

    `lasting`: it would come out the same again on the same ground. `final`: more time would not have helped. `tied`:
    members to be made again. `basis`: it stands until `fresh_until` on whatever is only fuller than that.
    """

    request: object
    ground: object
    decision: Decision
    again: float
    pause: float
    lasting: bool = True
    final: bool = True
    tied: tuple[Pod, ...] = ()
    basis: Basis | None = None
    fresh_until: float = 0.0

    def holds(self, request: object, ground: object, now: Fuller) -> bool:
        """Whether it would come out the same again, or is too young to be asked again.

        One that stands in a fuller cluster goes on from there, so that only the last change is looked at next time.
        """
        if self.request != request:
            return False
        if self.lasting and self.ground == ground:
            return True
        if self.basis is not None and monotonic() < self.fresh_until and now.leaves(self.decision, self.basis):
            self.ground, self.basis = ground, now.basis
            return True
        return monotonic() < self.again


@dataclass(slots=True)
class _Found:
    """A plan that no round has taken up yet: the best one first, then one that was found before it.

    `due`: from then on it is good enough, even if a better one is still looked for.
    """

    request: object
    plans: tuple[tuple[Decision, Question], ...]
    due: float


class _Round:
    """The gangs that need a plan in one round, and what is known of them by now."""

    def __init__(self, gangs: Sequence[Gang], picture: ClusterView, requests: Mapping[GangKey, object]) -> None:
        self.gangs = {gang.key: gang for gang in gangs}
        self.requests = requests
        self.picture = picture
        self.ground = ground_of(picture)
        self.fuller = Fuller(picture.snapshot, picture.topologies)
        self.taking = Taking(picture)
        self.known: dict[GangKey, Decision] = {}


class Planner:
    """Has gangs planned that need it, the most deserving first. To be used by one thread.

    :param limits: what one gang may take.
    :param wake: called, in another thread, when there is an answer.
    """

    def __init__(self, limits: Limits, metrics: Metrics, lanes: Lanes, wake: Callable[[], None] = lambda: None) -> None:
        self._limits = limits
        self._metrics = metrics
        self._lanes = lanes
        self._wake = wake
        self._inbox: deque[tuple[Question, Answer | None]] = deque()
        self._asked: dict[GangKey, tuple[Question, object]] = {}
        self._found: dict[GangKey, _Found] = {}
        self._refusals: dict[GangKey, _Refusal] = {}
        self._slow: set[GangKey] = set()
        """Gangs that had too little time in the prompt lane, and are to go on in the patient one."""
        self._overtaken: set[GangKey] = set()
        """Gangs whose plan, when it was found at last, did not stand any more: once, they hold up others."""
        self._requests: dict[GangKey, tuple[Gang, object]] = {}
        """What each gang asks for, with the very gang of which it was told: most are the same from round to round."""
        self._since: dict[GangKey, float] = {}
        """When a gang that has no answer yet was seen first."""

    def decide(self, gangs: Sequence[Gang], picture: ClusterView) -> Mapping[GangKey, Decision | None]:
        """The answer for every gang given, None for one that is being planned. A plan is given to one round only.

        Of gangs that compete, each is planned beside what those before it were given.
        """
        now = _Round(gangs, picture, {gang.key: self._request_of(gang) for gang in gangs})
        now.known |= {each.key: each for each in behind_in_line(gangs, picture.snapshot)}
        idle = self._lanes.prompt.idle, self._lanes.patient.idle  # before reading: what they have answered is there
        self._look_up(now)
        if self._ask(now, *idle):
            self._look_up(now)
        self._since = {key: self._since.get(key, monotonic()) for key in now.gangs.keys() - now.known.keys()}
        self._metrics.planning(len(self._asked))
        return {key: now.known.get(key) or self._former(key) for key in now.gangs}

    def quiet(self, key: GangKey) -> bool:
        """Whether a gang that is being planned has been for a moment only."""
        return monotonic() - self._since.get(key, float("-inf")) < QUIET_SECONDS

    def forget_others(self, keys: Collection[GangKey]) -> None:
        """Forget gangs that are not among `keys` any more."""
        known = set[GangKey]().union(self._asked, self._found, self._refusals, self._since, self._requests)
        self.forget((known | self._slow | self._overtaken).difference(keys))

    def forget(self, keys: Collection[GangKey]) -> None:
        """Forget these gangs: they are gone."""
        for key in keys:
            for memory in (self._asked, self._found, self._refusals, self._since, self._requests):
                memory.pop(key, None)
        self._slow.difference_update(keys)
        self._overtaken.difference_update(keys)

    def hold_off(self, gang: Gang, message: str, picture: ClusterView) -> Decision:
        """Do not plan this gang for a while: its last plan could not be carried out."""
        decision = Decision(gang, gang.key, Outcome.UNPLACEABLE, message, proof=Proof.UNPROVEN.value)
        self._drop(gang.key)
        self._refusals[gang.key] = _Refusal(
            _request(gang), ground_of(picture), decision, monotonic() + HOLD_SECONDS, HOLD_SECONDS, lasting=False
        )
        return decision

    def held_back(self, decision: Decision) -> tuple[Pod, ...]:
        """Members that may be made again at no price and whose old tie alone keeps their gang from a place."""
        kept = self._refusals.get(decision.key)
        return kept.tied if kept is not None and kept.decision is decision else ()

    def close(self) -> None:
        """Plan nothing any more."""
        self._lanes.close()

    def _request_of(self, gang: Gang) -> object:
        known = self._requests.get(gang.key)
        if known is None or known[0] is not gang:
            known = self._requests[gang.key] = gang, _request(gang)
        return known[1]

    def _look_up(self, now: _Round) -> None:
        """Read what has been answered, take up the plans that stand, and look up noes that still hold."""
        self._read()
        for key in self._found.keys() - now.gangs.keys():
            self._drop(key)
        for key in sorted(self._found, key=lambda key: -_priority(self._found[key].plans[0][0])):
            decision = self._taken(key, now)
            if decision is not None:
                now.known[key] = decision
        for key in now.gangs.keys() - now.known.keys():
            kept = self._refusals.get(key)
            if kept is not None and kept.holds(now.requests[key], now.ground, now.fuller):
                now.known[key] = kept.decision

    def _taken(self, key: GangKey, now: _Round) -> Decision | None:
        """The plan, if it is to be taken up now. One that does not stand is forgotten: the gang is asked anew."""
        found = self._found[key]
        if found.request != now.requests[key]:
            self._drop(key)
            return None
        if monotonic() < found.due:
            return None
        self._drop(key)
        for decision, question in found.plans:
            why = now.taking.fault(decision, now.gangs[key], question)
            if not why:
                now.taking.take(decision, question)
                return decision
            LOG.info("gang %s: a plan does not stand any more, and is made again: %s", key, why)
            self._metrics.stale()
        if any(question.limits.seconds > PROMPT_SECONDS for _, question in found.plans):
            self._overtaken.add(key)
        return None

    def _drop(self, key: GangKey) -> None:
        """Whatever is known or will be answered of this gang is of no interest any more."""
        self._found.pop(key, None)
        self._asked.pop(key, None)
        self._slow.discard(key)

    def _ask(self, now: _Round, prompt: bool, patient: bool) -> bool:  # noqa: FBT001 - which lanes are idle
        """Ask what has no answer, where a lane is free for it. Returns whether anything was asked."""
        for key, (_, request) in list(self._asked.items()):
            if request != now.requests.get(key):
                self._drop(key)
        new = [key for key in now.gangs if key not in now.known and key not in self._asked and key not in self._found]
        new = [key for key in new if not self._waits(key, now)]
        self._slow.difference_update(new)
        slow = [now.gangs[key] for key in now.gangs if key in self._slow and key not in self._asked]
        if new and prompt:
            seconds = self._limits.seconds if self._overtaken & set(new) else PROMPT_SECONDS
            self._overtaken.difference_update(new)
            limits = replace(self._limits, seconds=min(self._limits.seconds, seconds))
            self._send(self._lanes.prompt, new, now, limits)
        if slow and patient:
            classes = now.picture.snapshot.priority_classes
            first = in_order(with_priorities(each, classes) for each in slow)[0].key
            self._slow.discard(first)
            self._send(self._lanes.patient, [first], now, self._limits)
        return bool((new and prompt) or (slow and patient))

    def _waits(self, key: GangKey, now: _Round) -> bool:
        """Whether the gang waits for something, which needs no solver to be said."""
        decision = waiting(now.gangs[key], now.picture.snapshot, now.picture.topologies)
        if decision is None:
            return False
        self._metrics.decided([decision])
        self._refuse(Answer(decision, final=True, seconds=0.0), now.requests[key], now.ground)
        now.known[key] = decision
        return True

    def _send(self, lane: Lane, keys: Sequence[GangKey], now: _Round, limits: Limits) -> None:
        unseen = [found.plans[0][0] for key, found in self._found.items() if key not in keys]
        standing = (*now.taking.taken, *unseen)
        question = Question(tuple(now.gangs[key] for key in keys), now.picture, standing, limits, self._limits)
        self._asked |= {key: (question, now.requests[key]) for key in keys}
        lane.do(partial(self._answer, question))

    def _answer(self, question: Question) -> None:
        """In a lane."""
        try:
            for answer in answers(question):
                self._inbox.append((question, answer))
                self._wake()
        finally:
            self._inbox.append((question, None))
            self._wake()

    def _read(self) -> None:
        """Remember what has been answered, as far as it is still asked for."""
        new = []
        while self._inbox:
            question, answer = self._inbox.popleft()
            if answer is None:
                self._give_up(question)
                continue
            asked, request = self._asked.get(answer.decision.key, (None, None))
            if asked is question:
                del self._asked[answer.decision.key]
                new += [answer.decision] if answer.final else []
                self._remember(answer, question, request)
        self._metrics.decided(new)

    def _give_up(self, question: Question) -> None:
        """Nothing more comes. Gangs without an answer are left for now: planning them has failed twice."""
        for gang in question.gangs:
            if self._asked.get(gang.key, (None,))[0] is question:
                self.hold_off(gang, FAULTY, question.picture)

    def _remember(self, answer: Answer, question: Question, request: object) -> None:
        key, before = answer.decision.key, self._found.get(answer.decision.key)
        if not answer.final:
            self._slow.add(key)
        if answer.decision.outcome is Outcome.PLACED:
            plans = ((answer.decision, question), *(before.plans if before is not None else ()))
            due = float("-inf") if answer.final else monotonic() + self._limits.seconds
            self._found[key] = _Found(request, plans, due)
            self._refusals.pop(key, None)
        elif before is not None:
            before.due = float("-inf")  # the plan that was found before is the best there is
        else:
            self._refuse(answer, request, ground_of(question.picture))

    def _refuse(self, answer: Answer, request: object, ground: object) -> None:
        decision = answer.decision
        pause = _pause(answer, self._refusals.get(decision.key))
        self._refusals[decision.key] = _Refusal(
            request,
            ground,
            decision,
            monotonic() + pause,
            pause,
            lasting=not answer.failed,
            final=answer.final,
            tied=answer.tied,
            basis=answer.basis,
            fresh_until=monotonic() + _fresh_seconds(decision.key),
        )

    def _former(self, key: GangKey) -> Decision | None:
        """What was said of a gang that is planned again: it is said until there is an answer."""
        kept = self._refusals.get(key)
        return kept.decision if kept is not None and kept.decision.outcome is Outcome.UNPLACEABLE else None


def _fresh_seconds(key: GangKey) -> float:
    """Not the same for all, so that they are not asked again all together."""
    return FRESH_SECONDS * (0.5 + crc32(str(key).encode()) % 1024 / 1024)


def _pause(answer: Answer, before: _Refusal | None) -> float:
    """Seconds until a no may be asked again on another ground; longer each time."""
    if answer.failed:
        return HOLD_SECONDS
    last = before.pause if before is not None and before.final else 0.0
    if answer.decision.proof != Proof.UNPROVEN.value:
        return min(max(FIRST_PAUSE, 2 * last), LONGEST_PAUSE)
    spent = min(answer.seconds, PROMPT_SECONDS)  # what others have waited for it
    return min(max(FIRST_UNPROVEN_PAUSE, _SHARE_OF_TIME * spent, 2 * last), LONGEST_UNPROVEN_PAUSE)


def _request(gang: Gang) -> object:
    """What the gang asks for, without what the controller itself writes on its members."""
    members = tuple((m.pod.metadata.uid, m.pod.spec, m.pod_set, m.index) for m in gang.members)
    return replace(gang, members=()), members


def _priority(decision: Decision) -> int:
    return decision.gang.priority if decision.gang is not None else 0
