"""Carries out the step that is due for each gang: nominates, evicts, releases. A failed write is retried later.

The next reconcile derives the step again from the cluster, and continues from there.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from cluster.snapshot import Snapshot
from controller.acting.claim_templates import ClaimTemplates
from controller.acting.holding import DeviceHolder, DeviceStep
from controller.acting.placeholders import HoldingClasses, free, hold, must_wait, swap
from controller.acting.probe import Probes
from controller.acting.release_groups import (
    blocking,
    create_missing,
    extras_of_groups,
    last_of_groups,
    place_beside,
)
from controller.acting.unfinished_steps import UnfinishedSteps
from controller.cluster_view import ClusterView
from controller.error_backoff import ErrorBackoff
from controller.reconcile_state import NO_EFFECTS, Effects, Plan, ReconcileState
from controller.release.next_step import (
    AwaitVictims,
    Cause,
    Evict,
    Free,
    NeedPlan,
    Nominate,
    Planned,
    Postponed,
    Release,
    Renominate,
    TakeOver,
    planned_members,
)
from controller.release.patches import in_order, release_patch
from controller.release.pinning import solved_domain
from controller.release.records import PlannedVictim, PlanRecord, record_from
from controller.scheduling.planning_queue import PlanningQueue
from controller.status.conditions import Condition
from controller.status.reporting import Reporter
from controller.writes.writer import Result, Write, Writer, Written
from gangs.model import Gang, GangKey
from kube.keys import GATE, RELEASE_BEGUN
from kube.objects import Pod
from kube.placeholders import is_placeholder, seat_of, to_come
from kube.scheduling_groups import group_of
from planning.quota.flavors import flavors_in_use, node_labels, settled
from planning.scheduler_rules.binding_order import BindingOrder
from timing.clock import SYSTEM_CLOCK, Clock, rfc3339


class PlanExecutor:
    """Carries out the steps of all gangs in a reconcile, gang after gang. One gang's writes are sent in parallel."""

    def __init__(
        self,
        writer: Writer,
        reporter: Reporter,
        planning_queue: PlanningQueue,
        probes: Probes,
        error_backoff: ErrorBackoff,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._reporter = reporter
        self._planning_queue = planning_queue
        self._error_backoff = error_backoff
        self._probes = probes
        self._devices = DeviceHolder(writer, clock=clock)
        self._claim_templates = ClaimTemplates(writer, clock=clock)
        self._unfinished = UnfinishedSteps(reporter)
        self._classes = HoldingClasses(writer)

    def execute(self, gang_states: Sequence[ReconcileState], cluster_view: ClusterView) -> Mapping[GangKey, Effects]:
        """Carry out the step of every gang. Before that, check whether the scheduler has tried the probe pod: if it
        has, it has seen all nominations that were written before the probe.
        """
        self._probes.read(cluster_view.system)
        self._devices.read(cluster_view)
        return self._error_backoff.run_steps(gang_states, lambda each: self._step(each, cluster_view))

    def finish(
        self, gang_states: Sequence[ReconcileState], cluster_view: ClusterView, known: Collection[GangKey]
    ) -> None:
        """Create the next probe pod if a plan waits for one, and delete the placeholders of gangs that are gone. Called
        after the steps of all gangs.

        :param known: all existing gangs, including gangs without a step and gangs whose pods are being recreated.
        """
        self._probes.keep({gang_state.record.plan_id for gang_state in gang_states if gang_state.record is not None})
        self._probes.send()
        self._devices.finish(gang_states, cluster_view)
        self._unfinished.keep(known)
        for key, held in cluster_view.placeholders.items():
            if cluster_view.kept.gang(key) is None and key not in known:
                free(self._writer, held.values())

    def _step(self, gang_state: ReconcileState, cluster_view: ClusterView) -> Effects:
        self._unfinished.settle(gang_state, partial(_members, gang_state))
        effects = self._claim_templates.provide(gang_state, cluster_view)
        if isinstance(gang_state.step, DeviceStep):
            return effects.then(self._devices.act(gang_state, gang_state.step, cluster_view))
        return effects.then(self._act(gang_state, cluster_view))

    def _act(self, gang_state: ReconcileState, cluster_view: ClusterView) -> Effects:
        effects = NO_EFFECTS
        match gang_state.step:
            case NeedPlan() if not gang_state.deferred:
                effects = self._begin(gang_state, gang_state.step, cluster_view)
            case Nominate(members):
                effects = self._reserve(gang_state, members, cluster_view)
            case Renominate(members):
                self._reporter.unbound(gang_state, members)
                effects = Effects.of(self._nominate(gang_state, members))
            case TakeOver(successors):
                effects = self._take_over(gang_state, successors)
            case Free(placeholders):
                self._unsettle(gang_state)
                effects = Effects.of(free(self._writer, placeholders))
            case AwaitVictims():
                self._unsettle(gang_state)
            case Evict(victims):
                self._unsettle(gang_state)
                effects = self._evict(gang_state, victims, cluster_view)
            case Release(members):
                effects = self._release(gang_state, members, cluster_view)
            case Postponed(Release()) if gang_state.record is not None:
                self._probes.seen(gang_state.record.plan_id)  # `seen` also requests a probe
            case _:
                pass
        return effects

    def _begin(self, gang_state: ReconcileState, step: NeedPlan, cluster_view: ClusterView) -> Effects:
        """Start a new plan: record it in the Gang's status, then reserve its capacity.

        If the gang has no plan, or the record fails, the capacity that was reserved for the gang is freed.
        """
        effects, kept = NO_EFFECTS, set[str]()
        if gang_state.record is None and (stale_claims := self._devices.held_by(gang_state, cluster_view)):
            effects = self._devices.give_up(gang_state, stale_claims)
        if step.cause is not None:
            self._reporter.invalidated(gang_state, step)
            effects = effects.then(Effects.of(self._spare(gang_state, cluster_view)))
        self._unfinished.begin(gang_state)
        if gang_state.record is not None:
            recorded, status_written = self._reporter.write_status(gang_state)
            effects = effects.then(status_written)
            if recorded:
                members = _members(gang_state)
                effects = effects.then(self._reserve(gang_state.after(effects), members, cluster_view))
                kept = {member.uid for member in gang_state.record.members}
        stale = [pod for pod in step.stale if (seat_of(pod) or pod.metadata.uid) not in kept]
        written = self._writer.all(partial(self._writer.clear, pod) for pod in stale if not is_placeholder(pod))
        written += free(self._writer, filter(is_placeholder, stale))
        if gang_state.decision is not None:
            written += self._set_free(self._planning_queue.held_back(gang_state.decision), gang_state)
            written += self._open_groups(gang_state, cluster_view)
        return effects.then(Effects.of(written))

    def _reserve(self, gang_state: ReconcileState, members: Sequence[Planned], cluster_view: ClusterView) -> Effects:
        """Nominate these members, whose nominations under the plan are missing. When all are nominated, ask for the
        probe pod.

        The first nomination under a plan also writes the pod's condition PodScheduled (`UnfinishedSteps.conditions`).
        An ungated placeholder that the scheduler has not tried yet is nominated in a later reconcile.
        """
        written = self._nominate(gang_state, members, self._unfinished.conditions(gang_state, cluster_view))
        done = all(each.done for each in written)
        if any(map(must_wait, members)):
            return Effects.of(written, settled=done)
        if done:
            self._unfinished.nominated(gang_state, _members(gang_state))
        return Effects.of(written, settled=done and self._wants_probe(gang_state, cluster_view))

    def _spare(self, gang_state: ReconcileState, cluster_view: ClusterView) -> list[Written]:
        """Make sure that the running victims of an invalidated plan are not evicted any more, except those that the new
        plan evicts, too.

        For this, each victim gets a write that changes its resourceVersion. An eviction for the old plan that is still
        under way, from a former leader or from before a timeout, then fails.
        """
        if gang_state.fallen is None:
            return []
        plan_id, live = gang_state.fallen.plan_id, cluster_view.live
        going = {victim.uid for victim in gang_state.record.victims} if gang_state.record is not None else set()
        pods = [live[v.uid] for v in gang_state.fallen.victims if v.uid in live and v.uid not in going]
        return self._writer.all(partial(self._writer.spare, pod, plan_id) for pod in pods if not pod.terminating)

    def _set_free(self, pods: Sequence[Pod], gang_state: ReconcileState) -> list[Written]:
        """Delete gated members that are pinned to a domain of siblings that are gone, if only this pin prevents a plan.
        Their controllers recreate them without the pin.

        A gated pod has never run, and no disruption budget counts it.

        :param pods: only members whose controller recreates them at no cost (`planning.pins.REMAKERS`).
        """
        written = []
        for pod in pods:
            meta = pod.metadata  # its resourceVersion: a pod that was released meanwhile is not evicted
            written.append(self._writer.evict(meta.namespace, meta.name, meta.uid, version=meta.resource_version))
            if written[-1].done:
                self._reporter.set_free(gang_state, pod)
        return written

    def _open_groups(self, gang_state: ReconcileState, cluster_view: ClusterView) -> list[Written]:
        """Remove the gates of members without a planned node, because kube-scheduler tries no pod of a PodGroup while
        one of its pods is gated.

        Nothing is released if the plan has a node for such a member: the plan's own release then starts the PodGroup.
        """
        extras, nodes = blocking(gang_state.gang)
        record = gang_state.record
        if record is not None and any(record.node_of(pod.metadata.uid) for pod in extras):
            return []
        patches = self._beside(extras, nodes, gang_state, cluster_view)
        return self._writer.all(partial(self._writer.release, *each) for each in patches)

    def _nominate(
        self, gang_state: ReconcileState, members: Iterable[Planned], conditions: Mapping[str, Condition] | None = None
    ) -> list[Written]:
        """Nominate these members for their nodes, by their placeholders if they need one. Return the results.

        A member whose placeholder the scheduler has not tried yet is left out.

        :param conditions: the condition to write on each pod with its nomination, by UID. A pod may have none.
        """
        if gang_state.record is None:
            return []
        plan_id = gang_state.record.plan_id
        self._probes.forget(plan_id)
        condition_of = conditions or {}
        due = [each for each in members if each.placeholder is None or each.outdated or not must_wait(each)]
        if refused := self._classes.provide(each for each in due if each.needs_placeholder):
            return refused
        written = self._writer.all(
            partial(hold, self._writer, gang_state.gang.key, m, plan_id, condition_of.get(m.pod.metadata.uid))
            if m.needs_placeholder
            else partial(self._writer.nominate, m.pod, m.node, plan_id, condition_of.get(m.pod.metadata.uid))
            for m in due
        )
        if any(each.result is Result.FAILED for each in written):
            self._classes.forget()
        return written

    def _wants_probe(self, gang_state: ReconcileState, cluster_view: ClusterView) -> bool:
        """Ask for the probe pod, which shows when the scheduler has seen the nominations of all members. Return whether
        it was asked for.

        It is not asked for while victims or other pods terminate on the planned nodes. The scheduler must also have
        seen that these pods are gone, so a later step asks for the probe.
        """
        record = gang_state.record
        if record is None or record.victims or _ending_on(record, cluster_view):
            return False
        self._probes.want(record.plan_id)
        return True

    def _unsettle(self, gang_state: ReconcileState) -> None:
        """Forget that the scheduler has seen this plan's nominations, because it must also see the writes that follow
        now.
        """
        if gang_state.record is not None:
            self._probes.forget(gang_state.record.plan_id)

    def _take_over(self, gang_state: ReconcileState, successors: Sequence[tuple[str, Planned]]) -> Effects:
        """Replace expected pods by arrived pods: in the plan in the Gang's status first, then by nominating the pods.

        :param successors: each arrived pod, with the identifier of the expected pod that it replaces.
        """
        names = {seat: member.pod.metadata for seat, member in successors}
        effects = self._reporter.taken_over(gang_state, names)
        if effects.manifest is None:
            return effects
        record = record_from(effects.manifest["status"])
        effects = effects.then(Effects(plan=Plan(gang_state.step, record, gang_state.decision)))
        return effects.then(Effects.of(self._nominate(gang_state.after(effects), [member for _, member in successors])))

    def _evict(
        self, gang_state: ReconcileState, victims: Sequence[PlannedVictim], cluster_view: ClusterView
    ) -> Effects:
        """Evict all victims of a plan, or none: a dry run first asks the API server whether it would accept all.

        If the API server refuses an eviction, the plan is dropped. If it is overloaded, the next reconcile retries.
        """
        written = tried = self._send_evictions(victims, cluster_view, dry_run=True)
        refusal = self._refusal(victims, tried)
        if not refusal and not any(each.result in (Result.LATER, Result.CONFLICT) for each in tried):
            sent = self._send_evictions(victims, cluster_view, dry_run=False)
            self._await_budgets(victims, cluster_view)
            gone = [victim for victim, answer in zip(victims, sent, strict=True) if answer.done]
            for victim in gone:
                self._reporter.evicted(gang_state, victim)
            if gone:
                self._reporter.gangs_evicted(gang_state, gone, cluster_view)
            refusal, written = self._refusal(victims, sent), tried + sent
        effects = Effects.of(written)
        return effects.then(self._give_up(gang_state, refusal)) if refusal else effects

    def _await_budgets(self, victims: Sequence[PlannedVictim], cluster_view: ClusterView) -> None:
        """Read the disruption budgets of the victims' namespaces back from the API server.

        So the next reconcile waits until the cache shows how much of the budgets these evictions have used.
        """
        spent = {each.metadata.namespace for each in cluster_view.snapshot.budgets} & {
            each.namespace for each in victims
        }
        for namespace in sorted(spent):
            self._writer.read_back(f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets")

    def _send_evictions(
        self, victims: Sequence[PlannedVictim], cluster_view: ClusterView, *, dry_run: bool
    ) -> list[Written]:
        """Send evictions of these victims. An eviction fails if its pod has changed since the snapshot, because the pod
        may not be a victim any more.
        """
        seen = [cluster_view.live[victim.uid].metadata for victim in victims]
        return self._writer.all(
            partial(self._writer.evict, v.namespace, v.name, v.uid, version=meta.resource_version, dry_run=dry_run)
            for v, meta in zip(victims, seen, strict=True)
        )

    def _refusal(self, victims: Sequence[PlannedVictim], answers: Sequence[Written]) -> str:
        """Return the message about the first refused eviction; "" if none was refused.

        :param answers: the answer to the eviction of each victim, in the order of `victims`.
        """
        for victim, written in zip(victims, answers, strict=True):
            if written.result in (Result.REFUSED, Result.FAILED):
                return f"eviction of {victim.namespace}/{victim.name} was refused: {written.message}"
        return ""

    def _give_up(self, gang_state: ReconcileState, refusal: str) -> Effects:
        """Drop a plan because the eviction of a victim was refused. The gang is replanned after a pause."""
        written = self._writer.all(
            partial(self._writer.clear, pod) for pod in gang_state.held if not is_placeholder(pod)
        )
        written += free(self._writer, gang_state.placeholders.values())
        step = NeedPlan(refusal, cause=Cause.EVICTION_REFUSED)
        decision = self._planning_queue.hold_off(gang_state.gang_in_line, refusal)
        effects = Effects.of(written).then(Effects(plan=Plan(step, None, decision)))
        self._reporter.invalidated(gang_state.after(effects), step)
        return effects

    def _release(self, gang_state: ReconcileState, members: Sequence[Planned], cluster_view: ClusterView) -> Effects:
        if gang_state.record is None or not self._probes.seen(gang_state.record.plan_id):
            return NO_EFFECTS
        if gang_state.record.claims:
            waiting = self._devices.wait_for_scheduler(gang_state, cluster_view)
            if waiting is not None:
                return waiting
        if any(group_of(each.pod) for each in members):
            groups = create_missing(self._writer, gang_state, cluster_view)
            if not all(each.done for each in groups):
                return Effects.of(groups)
        flavors = flavors_in_use(gang_state.gang)
        snapshot, time = cluster_view.snapshot, rfc3339(self._clock.wall())
        domain = solved_domain(settled(gang_state.gang), _members(gang_state), snapshot, cluster_view.topologies)
        # If a pod with devices could go to another node, the scheduler would deallocate its claims (1.37).
        domain = (*domain, *node_labels(flavors)) if domain and not gang_state.record.claims else ()
        added = any(each.tolerations for each in flavors)
        members = _in_turn(gang_state, members, snapshot)
        if not members:
            return NO_EFFECTS  # members that are released already must be bound first
        nodes = {m.node: state.node for m in members if (state := snapshot.state(m.node)) is not None}
        patch_of = partial(release_patch, now=time, begun=_begun(gang_state.gang))
        ordered = in_order(members, gang_state.gang, snapshot)
        patches = [(m.pod, patch_of(m.pod, nodes[m.node], domain=domain, tolerating=added)) for m in ordered]
        extras = extras_of_groups(gang_state.gang, ordered)
        last = last_of_groups(ordered, extras)
        if last is not None:
            # The scheduler tries the group when its last gate is removed. The capacity is checked again before that.
            beside = [each.node for each in ordered]
            first = self._beside(extras, beside, gang_state, cluster_view)
            patches = [*first, *(each for each in patches if each[0] is not last.pod)]
        swapped = {each.pod.metadata.uid: each for each in ordered if each.ungated}
        written = self._writer.all(
            [self._opening(swapped.get(pod.metadata.uid), gang_state, pod, patch) for pod, patch in patches]
        )
        done = {each[0].metadata.uid for each, answer in zip(patches, written, strict=True) if answer.done}
        self._unfinished.release(gang_state, members, done)
        if last is None:
            return Effects.of(written, settled=len(done) == len(written))
        self._probes.forget(gang_state.record.plan_id)
        if len(done) == len(written):
            self._probes.want(gang_state.record.plan_id)
        return Effects.of(written, settled=len(done) == len(written))

    def _opening(self, member: Planned | None, gang_state: ReconcileState, pod: Pod, patch: Mapping[str, Any]) -> Write:
        """Return the write that releases a pod by this patch.

        :param member: the pod as a member whose capacity a placeholder reserves; None if the pod reserves it itself.
        """
        if member is None or gang_state.record is None:
            return partial(self._writer.release, pod, patch)
        time = self._clock.wall().isoformat()
        return partial(swap, self._writer, member, gang_state.record.plan_id, patch, time=time)

    def _beside(
        self, extras: Sequence[Pod], nodes: Sequence[str], gang_state: ReconcileState, cluster_view: ClusterView
    ) -> list[tuple[Pod, Mapping[str, Any]]]:
        """Return the pods `extras`, which are released although they have no planned node, each with the patch that
        releases it.

        :param nodes: the nodes of the released members, beside which the pods are pinned.
        """
        patches = list[tuple[Pod, Mapping[str, Any]]]()
        time, begun = rfc3339(self._clock.wall()), _begun(gang_state.gang)
        for pod in extras:
            node, domain = place_beside(pod, nodes, gang_state.gang, cluster_view)
            patches.append((pod, release_patch(pod, node, domain=domain, now=time, begun=begun)))
        return patches


def _in_turn(gang_state: ReconcileState, members: Sequence[Planned], snapshot: Snapshot) -> Sequence[Planned]:
    """Return those of the given members that may be released now, in the order in which the scheduler can bind them.

    A member must wait if the scheduler could not bind it before another member, for example one that it has affinity
    to. Members that are released but not bound yet count, too. Expected pods hold no member back.
    """
    ready = {each.pod.metadata.uid: each for each in members}
    there = (each for each in _members(gang_state) if not each.pod.bound and not to_come(each.pod))
    unbound = [each for each in there if snapshot.state(each.node) is not None]
    if any(group_of(each.pod) for each in members):
        return (
            members  # the scheduler tries the members of a PodGroup in one cycle, whatever the order of their release
        )
    order = BindingOrder(((each.pod, each.node) for each in unbound), snapshot, priority=gang_state.gang.priority)
    released = order.released_now([each.pod.metadata.uid in ready for each in unbound])
    return [ready[unbound[position].pod.metadata.uid] for position in released]


def _begun(gang: Gang) -> str:
    """Return when the first member of the gang was released (RFC 3339); "" if none has been."""
    released = (member.pod for member in gang.members if not member.pod.gated_by(GATE))
    return min(filter(None, (pod.metadata.annotations.get(RELEASE_BEGUN) for pod in released)), default="")


def _ending_on(record: PlanRecord, cluster_view: ClusterView) -> bool:
    """Return whether a pod is terminating on a node that the plan uses."""
    states = (cluster_view.snapshot.state(node) for node in {member.node for member in record.members})
    return any(tenant.terminating for state in states if state is not None for tenant in state.departing)


def _members(gang_state: ReconcileState) -> list[Planned]:
    pods = (member.pod for member in gang_state.gang.members)
    held, ungated = gang_state.placeholders, gang_state.ungated
    return list(planned_members(pods, gang_state.record, held, ungated=ungated))
