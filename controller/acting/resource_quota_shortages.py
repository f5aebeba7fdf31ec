"""ResourceQuotas that come, shrink or are used up by others while room is held for pods that do not exist yet.

A gang whose pods to come a quota refuses is not planned (`planning.scheduler_rules.resource_quotas`). The same holds
once it is: else room would be held for ever for pods that nobody can make (docs/decisions/0022).
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from cluster.snapshot import Snapshot
from controller.gang_round import GangRound
from controller.release.next_step import Cause, NeedPlan
from gangs.model import Gang, GangKey
from planning.scheduler_rules.resource_quotas import ChargedTogether, quotas_in_the_way
from timing.clock import SYSTEM_CLOCK, Clock

LOG = logging.getLogger(__name__)

LASTING_SECONDS = 60.0
"""So long others may use up a quota. It is charged for a pod a moment before anybody sees that pod, too."""


class QuotaShortages:
    """Lets plans fall whose pods to come would be refused: at once where a quota is too small for those gangs alone."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._since: dict[GangKey, float] = {}

    def find(self, gang_rounds: Sequence[GangRound], snapshot: Snapshot) -> None:
        """Note it on the rounds of these gangs: their room is given back, and they are planned anew."""
        holding = {each.gang.key: each for each in gang_rounds if _holding(each, snapshot)}
        ordered = sorted((each.gang for each in holding.values()), key=lambda gang: (gang.created, gang.key))
        falling = dict(_too_large(ordered, snapshot))
        falling |= self._lasting([gang for gang in reversed(ordered) if gang.key not in falling], snapshot)
        for key, why in falling.items():
            gang_round = holding[key]
            gang_round.step = NeedPlan(f"waits for {why}", gang_round.held, Cause.QUOTA_SHORT)

    def _lasting(self, gangs: Iterable[Gang], snapshot: Snapshot) -> dict[GangKey, str]:
        """Those to which others have left too little for long enough: of each namespace the first of these gangs. Then
        it may be enough for the next one.
        """
        now, since, found = self._clock.monotonic(), dict[GangKey, float](), dict[str, tuple[GangKey, str]]()
        for gang in gangs:
            if why := _found(gang, partial(_in_the_way, gang, snapshot)):
                since[gang.key] = self._since.get(gang.key, now)
                if now - since[gang.key] >= LASTING_SECONDS:
                    found.setdefault(gang.key.namespace, (gang.key, why))
        self._since = {key: now if key.namespace in found else at for key, at in since.items()}
        return dict(found.values())


def _holding(gang_round: GangRound, snapshot: Snapshot) -> bool:
    """Whether its plan is in force, there are pods to come, and a quota may refuse them."""
    planned = gang_round.record is not None and not isinstance(gang_round.step, NeedPlan)
    return planned and gang_round.gang.key.namespace in snapshot.quotas and bool(gang_round.gang.to_come)


def _too_large(gangs: Iterable[Gang], snapshot: Snapshot) -> Iterator[tuple[GangKey, str]]:
    """Those that a quota has no room for beside the ones before: planned at the same time, each by itself had it."""
    together: dict[str, ChargedTogether] = {}
    for gang in gangs:
        namespace = gang.key.namespace
        before = together.setdefault(namespace, ChargedTogether(snapshot.quotas[namespace]))
        if why := _found(gang, partial(before.refusal, gang)):
            yield gang.key, why


def _in_the_way(gang: Gang, snapshot: Snapshot) -> str:
    return next(quotas_in_the_way(gang, snapshot), "")


def _found(gang: Gang, ask: Callable[[], str]) -> str:
    """What is found out about one gang. Where that fails, an error of ours, its plan stays; others are looked at."""
    try:
        return ask()
    except Exception:
        LOG.exception("gang %s: what quotas leave it cannot be counted", gang.key)
        return ""
