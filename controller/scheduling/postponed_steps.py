"""Postpones releases and evictions that a plan accepted in the same reconcile makes unsafe.

`next_step` derives the step of every gang from the snapshot at the start of the reconcile. That snapshot does not show
the plans that the reconcile accepts. They may take capacity that unreleased gangs of lower priority reserve (contract,
section 4). A release or an eviction cannot be undone, so each one is checked again beside these plans.
The next reconcile sees the reservations that this one has written, and invalidates the displaced plans
(`controller.release.next_step`).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from cluster.node_state import NodeState, Tenant
from cluster.snapshot import Snapshot
from controller.reconcile_state import ReconcileState, with_steps
from controller.release.next_step import Delay, Evict, NeedPlan, Nominate, Postponed, Release, Step
from controller.release.records import PlanRecord
from controller.release.verifying import lost_room
from gangs.model import Gang, GangKey
from kube.keys import GATE
from kube.objects import Pod
from kube.requests import pod_requests
from timing.clock import SYSTEM_CLOCK, Clock

HANDOVER_SECONDS = 3.0
"""The most seconds for which a new leader postpones releases. The fast lane answers a gang within this time
(`rejections.FAST_LANE_SECONDS`).
"""


@dataclass(frozen=True, slots=True)
class _Plan:
    """A plan whose nominations the snapshot does not show yet."""

    priority: int
    tenants: tuple[Tenant, ...]
    victims: frozenset[str]
    """`namespace/name` of each pod that the plan evicts."""


class _Beside:
    """The snapshot as it will be once the nominations of newly accepted plans are written."""

    def __init__(self, plans: Sequence[_Plan], snapshot: Snapshot) -> None:
        self._tenants = [tenant for plan in plans for tenant in plan.tenants]
        self._nodes = {tenant.node for tenant in self._tenants}
        self._reaches_far = any(_reaches_far(tenant.pod) for tenant in self._tenants)
        self._before = snapshot
        self.victims = {victim for plan in plans for victim in plan.victims}

    def may_meet(self, planned: Iterable[tuple[Pod, str]]) -> bool:
        """Return whether the newly accepted plans can affect another plan, given by its pods and their planned nodes.

        True if both plans use the same node, or if a pod on either side has inter-pod affinity or topology spread
        constraints.
        """
        return any(self._reaches_far or node in self._nodes or _reaches_far(pod) for pod, node in planned)

    @cached_property
    def snapshot(self) -> Snapshot:
        """The snapshot with the reservations of the plans. They replace older reservations of the same pods."""
        arriving: defaultdict[str, list[Tenant]] = defaultdict(list)
        for tenant in self._tenants:
            arriving[tenant.node].append(tenant)
        moved = {tenant.pod.key for tenant in self._tenants}
        expecting = {state.name for state in self._before.expecting if not state.marks.isdisjoint(moved)}
        found = (self._before.state(name) for name in sorted(arriving.keys() | expecting))
        states = [_with_arrivals(state, arriving[state.name], moved) for state in found if state is not None]
        return self._before.with_states(states)


def postpone_displaced(gang_states: Sequence[ReconcileState], snapshot: Snapshot) -> Sequence[ReconcileState]:
    """Postpone each release and eviction of a gang whose capacity or members another plan takes.

    The other plan has equal or higher priority, and its nominations are not in the snapshot yet. Return the states,
    with the step `Postponed` for the affected gangs.
    """
    due = [(each, each.step) for each in gang_states if isinstance(each.step, Evict | Release) and not each.failed]
    plans = sorted((plan for plan in map(_plan, gang_states) if plan), key=lambda plan: -plan.priority) if due else []
    beside, postponed = dict[int, _Beside](), dict[GangKey, Step]()
    for gang_state, step in due:
        count = sum(plan.priority >= gang_state.gang.priority for plan in plans)
        if count and count not in beside:
            beside[count] = _Beside(plans[:count], snapshot)
        if count and _displaced(gang_state, step, beside[count]):
            postponed[gang_state.gang.key] = Postponed(step, Delay.DISPLACED)
    return with_steps(gang_states, postponed)


class Handover:
    """Postpones releases of a new leader until the waiting gangs that it found have been planned once.

    A release that is due takes one reconcile, and a plan takes several. So without this, a new leader would release
    gangs whose capacity a waiting gang of higher priority would get.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._waiting: frozenset[GangKey] | None = None
        """Gangs without a planning result of this leader, for which releases wait. None before the first reconcile."""
        self._until = 0.0

    def postpone(
        self, gang_states: Sequence[ReconcileState], unanswered: Collection[GangKey]
    ) -> Sequence[ReconcileState]:
        """Postpone each release while a gang of higher priority waits for its first planning result of this leader.

        The release of a gang of which a member is released already is not postponed, because a gang must not run in
        part. Return the states, with the step `Postponed` for the affected gangs.

        :param unanswered: the gangs without a planning result.
        """
        if self._waiting is None:
            self._waiting, self._until = frozenset(unanswered), self._clock.monotonic() + HANDOVER_SECONDS
        elif self._waiting:
            still = self._waiting.intersection(unanswered)
            self._waiting = still if self._clock.monotonic() < self._until else frozenset()
        if not self._waiting:
            return gang_states
        highest = max((each.gang.priority for each in gang_states if each.gang.key in self._waiting), default=None)
        postponed = {
            each.gang.key: Postponed(each.step, Delay.HANDOVER)
            for each in gang_states
            if highest is not None and each.gang.priority < highest
            if isinstance(each.step, Release) and _is_unreleased(each.gang)
        }
        return with_steps(gang_states, postponed)


def _is_unreleased(gang: Gang) -> bool:
    return all(member.pod.gated_by(GATE) for member in gang.members)


def _plan(gang_state: ReconcileState) -> _Plan | None:
    """Return the gang's plan if the snapshot does not show all its nominations yet; None otherwise."""
    record, step = gang_state.record, gang_state.step
    accepted = isinstance(step, NeedPlan) and not gang_state.deferred
    if record is None or gang_state.failed or not (accepted or isinstance(step, Nominate)):
        return None
    tenants = (
        Tenant(pod, node, pod_requests(pod), pod.spec.priority or 0, reserved=True)
        for pod, node in _planned(gang_state.gang, record)
    )
    victims = frozenset(f"{each.namespace}/{each.name}" for each in record.victims)
    return _Plan(gang_state.gang.priority, tuple(tenants), victims)


def _planned(gang: Gang, record: PlanRecord) -> list[tuple[Pod, str]]:
    """Return the unbound members that the plan contains, each with its planned node."""
    nodes = ((member.pod, record.node_of(member.pod.metadata.uid)) for member in gang.members if not member.pod.bound)
    return [(pod, node) for pod, node in nodes if node is not None]


def _displaced(gang_state: ReconcileState, step: Evict | Release, beside: _Beside) -> bool:
    gang, record = gang_state.gang, gang_state.record
    if record is None:
        return False
    left = [member for member in gang.members if member.pod.key not in beside.victims]
    if len(left) < len(gang.members) and not gang.suffice(left):
        return True
    planned = _planned(gang, record)
    if not beside.may_meet(planned):
        return False
    going = [victim.uid for victim in step.victims] if isinstance(step, Evict) else []
    # Before victims are gone their capacity counts as free; a release needs capacity that is free now.
    lost = lost_room(
        planned, beside.snapshot, priority=gang.priority, gone=going, count_terminating=isinstance(step, Evict)
    )
    return bool(lost)


def _reaches_far(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    near = affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None)
    return near or bool(pod.spec.topology_spread_constraints)


def _with_arrivals(state: NodeState, arriving: Sequence[Tenant], moved: Collection[str]) -> NodeState:
    stay = (tenant for tenant in state.tenants if tenant.pod.key not in moved)
    return replace(state, tenants=(*stay, *arriving))
