"""What the plans in force of one round have promised to evict, and whether that may still be done."""

from collections.abc import Sequence
from dataclasses import replace

from controller.cluster_view import ClusterView
from controller.gang_round import GangRound
from controller.release.next_step import AwaitVictims, Cause, Evict, NeedPlan, Nominate, Release
from planning.competing.evicted import staying
from planning.competing.promised_evictions import with_promised
from planning.framing.disruption_budgets import overdrawn
from planning.framing.running_gangs import cut_short, running_gangs

EVICTED = "members of it are evicted for another gang"
"""Why a plan falls that counts on them."""


def beside_promises(picture: ClusterView, gang_rounds: Sequence[GangRound]) -> ClusterView:
    """The picture for who plans now: what recorded plans evict is leaving, as long as they have not fallen."""
    promised = [
        (victim.uid, victim.node)
        for gang_round in gang_rounds
        if gang_round.record is not None and not isinstance(gang_round.step, NeedPlan)
        for victim in gang_round.record.victims
    ]
    snapshot = with_promised(picture.snapshot, promised)
    return picture if snapshot is picture.snapshot else replace(picture, snapshot=snapshot)


def drop_unlawful(picture: ClusterView, gang_rounds: Sequence[GangRound]) -> ClusterView:
    """Let plans fall whose evictions would by now cut a running gang short or overdraw a budget: what these allow, or
    who else goes, has changed since the plans were made. That of the lowest priority falls first. So does one whose own
    gang is evicted meanwhile. The picture is the one beside the promises that are left.
    """
    evicting = [
        (gang_round, gang_round.step.victims) for gang_round in gang_rounds if isinstance(gang_round.step, Evict)
    ]
    running = running_gangs(picture.reading) if evicting else {}
    for gang_round, victims in sorted(evicting, key=lambda each: each[0].gang.priority):
        gone = frozenset(f"{victim.namespace}/{victim.name}" for victim in victims)
        snapshot = beside_promises(picture, gang_rounds).snapshot
        if why := cut_short(gone, snapshot, running) or overdrawn(gone, snapshot):
            gang_round.step = NeedPlan(why, gang_round.held, Cause.EVICTION_REFUSED)
    beside = beside_promises(picture, gang_rounds)
    losing = [gang_round for gang_round in gang_rounds if _loses_its_own(gang_round, beside)]
    for gang_round in losing:
        gang_round.step = NeedPlan(EVICTED, gang_round.held, Cause.MEMBER_GONE)
    return beside_promises(picture, gang_rounds) if losing else beside


def _loses_its_own(gang_round: GangRound, picture: ClusterView) -> bool:
    """Whether a plan in progress counts on members of its gang that others evict, without whom it would be too few."""
    if gang_round.record is None or not isinstance(gang_round.step, Nominate | Evict | AwaitVictims | Release):
        return False
    left = staying(gang_round.gang, picture.snapshot)
    return left is not gang_round.gang and not left.suffice(left.members)
