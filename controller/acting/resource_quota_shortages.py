"""Invalidates plans whose expected pods a ResourceQuota would refuse, because their capacity is reserved in vain.

A gang is not planned if a quota refuses its expected pods (`planning.scheduler_rules.resource_quotas`). But a quota may
appear, shrink or be used up by other pods later. Then the plan is invalidated. Otherwise capacity would stay reserved
for ever for pods that cannot be created (docs/decisions/0022).
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from cluster.snapshot import Snapshot
from controller.reconcile_state import ReconcileState
from controller.release.next_step import Cause, NeedPlan
from gangs.model import Gang, GangKey
from planning.scheduler_rules.resource_quotas import ChargedTogether, quotas_in_the_way
from timing.clock import SYSTEM_CLOCK, Clock

LOG = logging.getLogger(__name__)

LASTING_SECONDS = 60.0
"""Seconds for which a quota must be short before a plan is invalidated for it.

A quota is charged for a pod a moment before a watch shows that pod. So a short shortage may be caused by a pod of the
gang itself.
"""


class QuotaShortages:
    """Finds the plans whose expected pods a ResourceQuota would refuse.

    If the planned gangs alone exceed the quota, the plans that are too much are invalidated at once. If other pods use
    up the quota, a plan is invalidated after `LASTING_SECONDS`.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._since: dict[GangKey, float] = {}

    def find(self, gang_states: Sequence[ReconcileState], snapshot: Snapshot) -> Mapping[GangKey, NeedPlan]:
        """Return a step `NeedPlan` for each gang whose plan is invalidated: it frees its capacity and is replanned."""
        holding = {each.gang.key: each for each in gang_states if _holding(each, snapshot)}
        ordered = sorted((each.gang for each in holding.values()), key=lambda gang: (gang.created, gang.key))
        falling = dict(_too_large(ordered, snapshot))
        falling |= self._lasting([gang for gang in reversed(ordered) if gang.key not in falling], snapshot)
        return {key: NeedPlan(f"waits for {why}", holding[key].held, Cause.QUOTA_SHORT) for key, why in falling.items()}

    def _lasting(self, gangs: Iterable[Gang], snapshot: Snapshot) -> dict[GangKey, str]:
        """Return gangs whose quota other pods have used up for `LASTING_SECONDS`, each with the reason.

        Only the first such gang of each namespace is returned, because without its pods the quota may be enough for the
        next gang.
        """
        now, since, found = self._clock.monotonic(), dict[GangKey, float](), dict[str, tuple[GangKey, str]]()
        for gang in gangs:
            if why := _found(gang, partial(_in_the_way, gang, snapshot)):
                since[gang.key] = self._since.get(gang.key, now)
                if now - since[gang.key] >= LASTING_SECONDS:
                    found.setdefault(gang.key.namespace, (gang.key, why))
        self._since = {key: now if key.namespace in found else at for key, at in since.items()}
        return dict(found.values())


def _holding(gang_state: ReconcileState, snapshot: Snapshot) -> bool:
    """Return whether the gang has a plan in force and expected pods, and its namespace has a quota."""
    planned = gang_state.record is not None and not isinstance(gang_state.step, NeedPlan)
    return planned and gang_state.gang.key.namespace in snapshot.quotas and bool(gang_state.gang.to_come)


def _too_large(gangs: Iterable[Gang], snapshot: Snapshot) -> Iterator[tuple[GangKey, str]]:
    """Yield the gangs whose expected pods exceed a ResourceQuota together with the expected pods of the gangs before
    them, each with the reason.

    This happens if gangs are planned at the same time, and the quota suffices for each gang alone but not for all of
    them.
    """
    together: dict[str, ChargedTogether] = {}
    for gang in gangs:
        namespace = gang.key.namespace
        before = together.setdefault(namespace, ChargedTogether(snapshot.quotas[namespace]))
        if why := _found(gang, partial(before.refusal, gang)):
            yield gang.key, why


def _in_the_way(gang: Gang, snapshot: Snapshot) -> str:
    return next(quotas_in_the_way(gang, snapshot), "")


def _found(gang: Gang, ask: Callable[[], str]) -> str:
    """Return the result of `ask`, which says why a quota refuses the gang's pods; "" if `ask` raises an error.

    So an internal error at one gang neither invalidates its plan nor stops the check of other gangs.
    """
    try:
        return ask()
    except Exception:
        LOG.exception("gang %s: what quotas leave it cannot be counted", gang.key)
        return ""
