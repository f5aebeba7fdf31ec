"""Allocates the devices of a plan to the claims of gated members, before the gang is released (docs/decisions/0045).

The writes of one plan, in their order: taint rules (DeviceTaintRules) for the pools of its devices, one status for each
claim, the deletion of the taint rules. Between two of them the scheduler must have seen the earlier ones, which probes
show. Each step is derived from claims and taint rules, so a new leader continues where the last one stopped.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import partial

from cluster.devices.allocation import DeviceId
from cluster.devices.holdings import DeviceView
from controller.acting.device_probes import ClaimProbes, TaintProbes
from controller.acting.pods_in_flight import PodsInFlight
from controller.cluster_view import ClusterView
from controller.reconcile_state import Effects, ReconcileState
from controller.release.devices import (
    DevicePlan,
    PlannedClaim,
    Pool,
    allocation_status,
    device_plan,
    in_flight,
    is_ours,
    is_rule,
    plan_of,
    taking_rule,
    wanting,
    yielding_rule,
)
from controller.release.next_step import GiveUp, Hold, Taint, Untaint, Yield
from controller.writes.writer import Result, Writer, Written
from gangs.model import Gang
from kube.devices import DeviceTaintRule, ResourceClaim
from kube.keys import GATE, TAKING, YIELDING
from timing.clock import SYSTEM_CLOCK, Clock, rfc3339

DeviceStep = Taint | GiveUp | Hold | Yield | Untaint
"""A step about devices for which the controller writes."""
RULES = "/apis/resource.k8s.io/v1/devicetaintrules"


class DeviceHolder:
    """Carries out the steps about devices of all gangs.

    It remembers which plans probes have confirmed, and for which nominated pods plans wait. The state is not durable.
    """

    def __init__(self, writer: Writer, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._writer = writer
        self._clock = clock
        self._claim_probes = ClaimProbes(writer)
        self._taint_probes = TaintProbes(writer)
        self._in_flight = PodsInFlight(clock)

    def read(self, cluster_view: ClusterView) -> None:
        """Check whether the scheduler has tried the present probes."""
        if cluster_view.devices.known:
            self._claim_probes.read_with(cluster_view.system, cluster_view.devices)
            self._taint_probes.read_with(cluster_view.system, cluster_view.devices)

    def finish(self, gang_states: Sequence[ReconcileState], cluster_view: ClusterView) -> None:
        """Send the next probes after the steps of all gangs. Delete taint rules and probes that no plan needs."""
        view = cluster_view.devices
        if not view.known:
            return
        records = [each.record for each in gang_states if each.record is not None and each.record.claims]
        plan_ids = {record.plan_id for record in records}
        for probes in (self._claim_probes, self._taint_probes):
            probes.keep(plan_ids)
            probes.send()
            probes.clean(view)
        self._in_flight.keep(plan_ids)
        needed = {each.record.plan_id for each in gang_states if each.record is not None and _is_taking(each, view)}
        self._delete_rules(each for each in view.rules if is_rule(each, TAKING) and plan_of(each) not in needed)
        self._delete_rules(each for each in view.rules if is_rule(each, YIELDING) and _is_free(each, view))

    def act(self, gang_state: ReconcileState, step: DeviceStep, cluster_view: ClusterView) -> Effects:
        """Carry out a step that concerns devices of a gang's plan, and return its effects."""
        match step:
            case Taint(pools):
                return self.taint(gang_state, pools)
            case GiveUp(claims):
                return self.give_up(gang_state, claims)
            case Hold(devices, claims):
                return self.hold(devices, claims, cluster_view)
            case Yield(devices, doubled):
                return self.yield_devices(gang_state, devices, doubled)
            case Untaint(_, rules):
                return self.untaint(gang_state, rules, cluster_view)

    def taint(self, gang_state: ReconcileState, pools: Iterable[Pool]) -> Effects:
        """Create the taint rules that keep new claims off these pools."""
        if gang_state.record is None:
            return Effects()
        plan_id = gang_state.record.plan_id
        self._forget_rules(plan_id)
        return _effects(
            self._writer.all(partial(self._writer.create, RULES, taking_rule(plan_id, pool)) for pool in pools)
        )

    def hold(self, devices: DevicePlan, claims: Sequence[PlannedClaim], cluster_view: ClusterView) -> Effects:
        """Allocate the planned devices to these claims, once the scheduler allocates the devices to no other claim.

        Nothing is written before the scheduler has seen the taint rules. Nothing is written either while the scheduler
        may be about to bind a pod for which it chose a device before that.
        """
        if not self._seen_rules(devices):
            return _refused(self._taint_probes.refusal)
        if (waiting := self._wait_for_pods(devices, cluster_view)) is not None:
            return waiting
        self._claim_probes.forget(devices.plan_id)
        self._in_flight.forget(devices.plan_id)
        now = rfc3339(self._clock.wall())
        answers = self._writer.each(
            partial(self._writer.allocate, each.claim, allocation_status(each, devices.view, now), devices.plan_id)
            for each in claims
            if each.claim is not None
        )
        written = [each for answer in answers for each in answer]
        held = all(answer and answer[-1].done for answer in answers)
        if held and {each.allocation for each in claims} == {each.allocation for each in devices.unheld}:
            self._claim_probes.want(devices.plan_id)
        return _effects(written, settled=held)

    def untaint(
        self, gang_state: ReconcileState, rules: Iterable[DeviceTaintRule], cluster_view: ClusterView
    ) -> Effects:
        """Delete these taint rules once the scheduler has seen the allocations of the plan."""
        waiting = self.wait_for_scheduler(gang_state, cluster_view)
        return waiting if waiting is not None else _effects(self._delete_rules(rules))

    def wait_for_scheduler(self, gang_state: ReconcileState, cluster_view: ClusterView) -> Effects | None:
        """Return None if the scheduler has seen all allocations of the plan, and is not about to bind a pod with a
        device of the plan.

        Otherwise return the effects of waiting. If it is not known what the scheduler has seen, ask for a probe.
        """
        record = gang_state.record
        if record is None or not self._claim_probes.seen(record.plan_id):
            return _refused(self._claim_probes.refusal)
        return self._wait_for_pods(device_plan(gang_state.gang, record, cluster_view.devices), cluster_view)

    def _wait_for_pods(self, devices: DevicePlan, cluster_view: ClusterView) -> Effects | None:
        """Return the effects of waiting for a pod. None if the scheduler is not about to bind any pod with a device of
        the plan.
        """
        pods = in_flight(devices.view, cluster_view.live.values(), _nodes(devices))
        pod = self._in_flight.first(devices.plan_id, pods)
        if pod is None:
            return None
        if not self._in_flight.is_long(devices.plan_id):
            return Effects(watched=True)
        node = pod.status.nominated_node_name
        text = f"waits for pod {pod.key}, which is nominated for node {node} and may take devices there: delete the pod"
        return Effects(watched=True, awaited=f"{text} if it does not start")

    def yield_devices(self, gang_state: ReconcileState, devices: DevicePlan, doubled: Iterable[DeviceId]) -> Effects:
        """Give up the claims of the plan, because other claims have the devices `doubled`, too.

        If one of two claims on a device is deallocated, the scheduler counts the device as free although the other
        claim has it. So the device is tainted first, and stays tainted until the other claim has ended. A probe can
        only show that the scheduler has seen a taint rule of a whole pool, so the pool is tainted meanwhile, too. The
        scheduler receives taint rules by one watch, so it sees the rule of the device before the end of the rule of the
        pool.

        A share needs no taint rule: the scheduler adds up what claims consume of a device, so it counts no more as free
        than the plan gives up.
        """
        alone = [device for device in doubled if device not in devices.doubled_shares]
        if alone and devices.view.taints:
            existing = {each.metadata.name for each in devices.view.rules}
            rules = [yielding_rule(devices.plan_id, device) for device in alone]
            rules += [taking_rule(devices.plan_id, pool) for pool in devices.untainted]
            missing = [each for each in rules if each["metadata"]["name"] not in existing]
            if missing:
                self._forget_rules(devices.plan_id)
                return _effects([self._writer.create(RULES, each) for each in missing])
            if not self._seen_rules(devices):
                return _refused(self._taint_probes.refusal)
        held = (each.claim for each in devices.claims if each.as_planned)
        own = [claim for claim in held if claim is not None and is_ours(claim)]
        return self.give_up(gang_state, own) if own else Effects(awaited=_doubled_text(devices))

    def give_up(self, gang_state: ReconcileState, claims: Iterable[ResourceClaim]) -> Effects:
        """Deallocate claims of gated members, each in one write.

        The plan may give the devices to other claims of the gang. A probe for the taint rules shows nothing while the
        devices are allocated, so another probe is sent afterwards.
        """
        if gang_state.record is not None:
            self._forget_rules(gang_state.record.plan_id)
        uids = _gated(gang_state.gang)
        return _effects(self._writer.all(partial(self._writer.give_up, claim, uids) for claim in claims))

    def held_by(self, gang_state: ReconcileState, cluster_view: ClusterView) -> tuple[ResourceClaim, ...]:
        """Return the claims with devices that the controller has allocated for gated members of the gang."""
        view = cluster_view.devices
        return tuple(filter(is_ours, view.held_for(_gated(gang_state.gang)))) if view.claims else ()

    def _seen_rules(self, devices: DevicePlan) -> bool:
        """Return whether the scheduler has seen the taint rules of the plan. If this is not known, request a probe.

        True where the API server serves no taint rules.
        """
        wanted = wanting(devices) if devices.view.taints else None
        return wanted is None or self._taint_probes.ask(devices.plan_id, wanted)

    def _forget_rules(self, plan_id: str) -> None:
        """Forget that the scheduler has seen the taint rules of a plan, so that another probe is sent."""
        self._taint_probes.forget(plan_id)
        self._in_flight.forget(plan_id)

    def _delete_rules(self, rules: Iterable[DeviceTaintRule]) -> list[Written]:
        return self._writer.all(
            partial(self._writer.delete, f"{RULES}/{each.metadata.name}", each.metadata.uid) for each in rules
        )


def _nodes(devices: DevicePlan) -> frozenset[str]:
    return frozenset(each.allocation.node for each in devices.claims)


def _effects(written: Collection[Written], *, settled: bool = False) -> Effects:
    """Return the effects of writes about devices. The gang's status names a write that the API server has refused."""
    refusal = next((each.message for each in written if each.result is Result.FAILED), "")
    return Effects.of(written, settled=settled).then(_refused(refusal))


def _refused(refusal: str) -> Effects:
    """Return the effects if the API server has refused a write about devices, for example because the controller lacks
    the right to it. The gang's status then shows the message.

    :param refusal: the message of the API server; "" if it has refused no write.
    """
    return Effects(awaited=f"cannot take or free devices: {refusal}", watched=True) if refusal else Effects()


def _doubled_text(devices: DevicePlan) -> str:
    """Return the message about a device that two claims have, of which the controller has allocated neither."""
    claim, device, holder = devices.doubles[0]
    name = f"device {device.device} of pool {device.pool}"
    keys = claim.claim.key if claim.claim is not None else "", holder.key
    if device in claim.shares:
        both = f"ResourceClaim {keys[0]} and ResourceClaim {keys[1]}"
        return f"{name} is shared by {both} beyond its capacity: delete the pods of one of them"
    return (
        f"{name} is allocated to ResourceClaim {keys[0]} and to ResourceClaim {keys[1]}: delete the pods of one of them"
    )


def _gated(gang: Gang) -> frozenset[str]:
    return frozenset(each.pod.metadata.uid for each in gang.members if each.pod.gated_by(GATE))


def _is_taking(gang_state: ReconcileState, view: DeviceView) -> bool:
    """Return whether the gang's plan in force needs its taint rules: it has claims whose members are gated."""
    record = gang_state.record
    return record is not None and bool(record.claims) and bool(device_plan(gang_state.gang, record, view).claims)


def _is_free(rule: DeviceTaintRule, view: DeviceView) -> bool:
    """Return whether no claim has the device of a taint rule any more."""
    selector = rule.spec.device_selector
    if selector is None:
        return True
    device = DeviceId(selector.driver or "", selector.pool or "", selector.device or "")
    return device not in view.users
