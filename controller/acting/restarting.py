"""Restarts gangs as a whole that ask for it: one of their members was lost and cannot be replaced beside the others.

Nobody is evicted for nothing: the no has stood for a while, everybody who goes comes again, and all members together
have a place that is free now (docs/decisions/0030). One gang is restarted at a time, so that no room is promised twice.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial

from controller.acting.withdrawing import Withdrawer
from controller.cluster_view import ClusterView
from controller.defaults import RESTART_SECONDS
from controller.gang_round import GangRound
from controller.mishaps import Doing, Mishaps
from controller.release.wholeness import Withdrawal, WithdrawalReason, bound_when_whole, was_whole
from controller.scheduling.restart_checks import Planned, RestartChecks
from gangs.model import GangKey
from planning.decision import Outcome
from planning.messages.wording import pods as counted
from planning.whole_again import let_go, wants_restart
from solver.plan import Proof
from timing.clock import SYSTEM_CLOCK, Clock

ON_ITS_WAY_SECONDS = 60.0
"""How long the others wait at most for a gang that is being restarted to be let go."""


class Restarter:
    """Looks at gangs that ask to be restarted; what it goes by stands in the cluster, but for how long it has.

    :param seconds: how long a lost member must have found no place.
    """

    def __init__(
        self,
        withdrawer: Withdrawer,
        checks: RestartChecks,
        mishaps: Mishaps,
        *,
        seconds: float = RESTART_SECONDS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._withdrawer = withdrawer
        self._mishaps = mishaps
        self._checks = checks
        self._seconds = seconds
        self._since: dict[GangKey, float] = {}
        """Since when a gang has been seen with a lost member that finds no place."""
        self._under_way: tuple[GangKey, float] | None = None

    def restart(self, gang_rounds: Sequence[GangRound], picture: ClusterView) -> None:
        """Begin what is due, and note on each round what is to be said."""
        able = []
        for gang_round in gang_rounds:
            gang_round.stays, gang_round.restarts = "", 0
            if gang_round.failed:
                continue
            if self._mishaps.tried(gang_round, Doing.ACTING, partial(self._is_due, gang_round)):
                able.append(gang_round)
        self._since = {key: since for key, since in self._since.items() if picture.kept.gang(key) is not None}
        self._begin(able, picture, _planned(gang_rounds) if able else {})

    def _is_due(self, gang_round: GangRound) -> bool:
        """Whether it is restarted if all its members together have a place; what else is to be said is noted on it."""
        key = gang_round.gang.key
        self._note_end(gang_round)
        if not torn(gang_round):
            self._since.pop(key, None)
        elif why := _used_up(gang_round):
            gang_round.stays = f"is not restarted as a whole: {why}"
        elif self._clock.monotonic() - self._since.setdefault(key, self._clock.monotonic()) < self._seconds:
            gang_round.watched = True
            gang_round.stays = (
                f"is restarted as a whole if that stays so for {self._seconds:g} s and all together have a place"
            )
        else:
            return True
        return False

    def _begin(self, able: Sequence[GangRound], picture: ClusterView, planned: Planned) -> None:
        """Restart the first of those of which it is known that they have a place as a whole."""
        verdicts = self._checks.look([each.gang for each in able], picture, planned) if able else {}
        for gang_round in able:
            gang, verdict = gang_round.gang, verdicts.get(gang_round.gang.key)
            if verdict is not None and not verdict.placed:
                gang_round.watched = verdict.version != picture.snapshot.version  # to be looked at again in a while
                gang_round.stays = f"is not restarted as a whole: {verdict.why}" if verdict.why else ""
                continue
            gang_round.watched = True
            if verdict is None or not verdict.fresh(gang, self._clock.monotonic()):
                gang_round.stays = "is restarted as a whole if all its members together have a place"
            elif other := self._other(gang.key):
                gang_round.stays = f"is not restarted as a whole while gang {other} is"
            else:
                self._mishaps.tried(gang_round, Doing.ACTING, partial(self._restart, gang_round))

    def _restart(self, gang_round: GangRound) -> None:
        gang = gang_round.gang
        self._since.pop(gang.key, None)
        self._under_way = gang.key, self._clock.monotonic()
        gang_round.restarts = int(gang_round.status.get("restarts", 0)) + 1
        message = (
            f"restarted as a whole ({gang_round.restarts} of at most {gang.max_restarts} times): the others have no "
            f"place beside the {counted(len(let_go(gang)))} that had started, and all together have one, so those were "
            "evicted"
        )
        self._withdrawer.take_back(gang_round, Withdrawal(WithdrawalReason.RESTARTED, message))

    def _note_end(self, gang_round: GangRound) -> None:
        """Others may be restarted once this one has been let go again."""
        if self._under_way is None or self._under_way[0] != gang_round.gang.key:
            return
        if was_whole(gang_round.gang, gang_round.status) and not torn(gang_round):
            self._under_way = None

    def _other(self, key: GangKey) -> GangKey | None:
        """The gang that is being restarted, if it is another one."""
        if self._under_way is None or self._clock.monotonic() - self._under_way[1] > ON_ITS_WAY_SECONDS:
            return None
        return self._under_way[0] if self._under_way[0] != key else None


def _planned(gang_rounds: Iterable[GangRound]) -> Planned:
    """Who is to come to which nodes by the plans in force, also by those that this very round has taken up."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for gang_round in gang_rounds:
        for member in gang_round.record.members if gang_round.record is not None else ():
            found[member.node].add(member.uid)
    return found


def torn(gang_round: GangRound) -> bool:
    """Whether it asks to be restarted, was whole, has lost a member since, and it is proven that there is no place."""
    gang, decision = gang_round.gang, gang_round.decision
    if decision is None or not wants_restart(gang) or not was_whole(gang, gang_round.status):
        return False
    if decision.outcome is not Outcome.UNPLACEABLE or decision.proof != Proof.INFEASIBLE.value:
        return False
    bound = sum(member.pod.bound for member in gang.members)
    return bound < bound_when_whole(gang, gang_round.status)


def _used_up(gang_round: GangRound) -> str:
    """Why it may not be restarted once more; "" where it may."""
    gang, times = gang_round.gang, int(gang_round.status.get("restarts", 0))
    if times < gang.max_restarts:
        return ""
    return f"spec.maxRestarts allows {gang.max_restarts}, and it has been restarted {times} times"
