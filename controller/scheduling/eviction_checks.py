"""Counts the victims of all plans in force as leaving. Invalidates plans whose evictions are no longer allowed."""

from collections.abc import Sequence
from dataclasses import replace

from controller.cluster_view import ClusterView
from controller.reconcile_state import ReconcileState, with_steps
from controller.release.next_step import AwaitVictims, Cause, Evict, NeedPlan, Nominate, Release
from planning.competing.evicted import staying
from planning.competing.promised_evictions import with_promised
from planning.framing.disruption_budgets import overdrawn
from planning.framing.running_gangs import cut_short, running_gangs

EVICTED = "members of it are evicted for another gang"
"""Why a plan is invalidated: its gang relies on members that another gang's plan evicts."""


def beside_promises(cluster_view: ClusterView, gang_states: Sequence[ReconcileState]) -> ClusterView:
    """Return the cluster view in which the victims of all plans in force count as leaving, so that new plans may use
    the capacity that they free.
    """
    promised = [
        (victim.uid, victim.node)
        for gang_state in gang_states
        if gang_state.record is not None and not isinstance(gang_state.step, NeedPlan)
        for victim in gang_state.record.victims
    ]
    snapshot = with_promised(cluster_view.snapshot, promised)
    return cluster_view if snapshot is cluster_view.snapshot else replace(cluster_view, snapshot=snapshot)


def drop_unlawful(
    cluster_view: ClusterView, gang_states: Sequence[ReconcileState]
) -> tuple[ClusterView, Sequence[ReconcileState]]:
    """Invalidate plans whose evictions would now cut a running gang below its minimum or exceed a disruption budget.

    The budgets, the running gangs or other evictions may have changed since planning. Plans of the lowest priority are
    invalidated first. A plan whose own gang is evicted meanwhile is invalidated, too.
    Return the cluster view in which the victims of the remaining plans are leaving, and the states.
    """
    evicting = [(each, each.step.victims) for each in gang_states if isinstance(each.step, Evict)]
    running = running_gangs(cluster_view.reading) if evicting else {}
    for gang_state, victims in sorted(evicting, key=lambda each: each[0].gang.priority):
        gone = frozenset(f"{victim.namespace}/{victim.name}" for victim in victims)
        snapshot = beside_promises(cluster_view, gang_states).snapshot
        if why := cut_short(gone, snapshot, running) or overdrawn(gone, snapshot):
            step = NeedPlan(why, gang_state.held, Cause.EVICTION_REFUSED)
            gang_states = with_steps(gang_states, {gang_state.gang.key: step})
    beside = beside_promises(cluster_view, gang_states)
    losing = [each for each in gang_states if _loses_its_own(each, beside)]
    steps = {each.gang.key: NeedPlan(EVICTED, each.held, Cause.MEMBER_GONE) for each in losing}
    gang_states = with_steps(gang_states, steps)
    return beside_promises(cluster_view, gang_states) if losing else beside, gang_states


def _loses_its_own(gang_state: ReconcileState, cluster_view: ClusterView) -> bool:
    """Return whether other plans evict so many members of the gang that fewer than its minimum remain.

    False for a gang without a plan in progress.

    :param cluster_view: the view in which the victims of all plans in force are leaving.
    """
    if gang_state.record is None or not isinstance(gang_state.step, Nominate | Evict | AwaitVictims | Release):
        return False
    left = staying(gang_state.gang, cluster_view.snapshot)
    return left is not gang_state.gang and not left.suffice(left.members)
