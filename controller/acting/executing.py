"""Carries out what a round decided: nominate, evict, release. Any write may fail; the next round goes on from there."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from controller.acting.placeholders import free, hold
from controller.acting.probe import Probes
from controller.cluster_view import ClusterView
from controller.gang_round import GangRound
from controller.release.patches import in_order, release_patch
from controller.release.pinning import solved_domain
from controller.release.protocol import (
    Cause,
    Evict,
    Free,
    NeedPlan,
    Nominate,
    Planned,
    Release,
    Renominate,
    TakeOver,
)
from controller.release.records import PlannedVictim, record_from
from controller.scheduling.planner import Planner
from controller.status.conditions import Condition
from controller.status.reporting import Reporter
from controller.times import now
from controller.writes.writer import Result, Writer, Written
from kube.objects import Pod
from kube.placeholders import is_placeholder, seat_of, to_come
from planning.quota.flavors import flavors_in_use, node_labels, settled


class PlanExecutor:
    """Acts for all gangs of a round, one after another, each one's writes in parallel."""

    def __init__(self, writer: Writer, reporter: Reporter, planner: Planner, probes: Probes) -> None:
        self._writer = writer
        self._reporter = reporter
        self._planner = planner
        self._probes = probes

    def execute(self, cases: Sequence[GangRound], picture: ClusterView) -> None:
        """Do what is due for every gang."""
        for case in cases:
            sent = self._writer.sent
            self._act(case, picture)
            case.writing = self._writer.sent != sent
        self._probes.keep({case.record.plan_id for case in cases if case.record is not None})
        self._probes.advance(picture.system)
        for key, held in picture.placeholders.items():
            if picture.kept.gang(key) is None:
                free(self._writer, held.values())

    def _act(self, case: GangRound, picture: ClusterView) -> None:
        match case.step:
            case NeedPlan() if not case.deferred:
                self._begin(case, case.step, picture)
            case Nominate(members):
                self._nominate(case, members)
            case Renominate(members):
                self._reporter.unbound(case, members)
                self._nominate(case, members)
            case TakeOver(heirs):
                self._take_over(case, heirs)
            case Free(placeholders):
                free(self._writer, placeholders)
            case Evict(victims):
                self._evict(case, victims, picture)
            case Release(members):
                self._release(case, members, picture)
            case _:
                pass

    def _begin(self, case: GangRound, step: NeedPlan, picture: ClusterView) -> None:
        """Record the plan, then hold its room; where there is none, give back what was held."""
        if step.cause is not None:
            self._reporter.invalidated(case, step)
            self._spare(case, picture)
        kept: set[str] = set()
        if case.record is not None and self._reporter.write_status(case):
            self._reporter.planned(case)
            members = _members(case)
            if self._nominate(case, members, self._reporter.told(case, picture)):
                self._reporter.nominated(case, members)
            kept = {member.uid for member in case.record.members}
        stale = [pod for pod in step.stale if (seat_of(pod) or pod.metadata.uid) not in kept]
        self._writer.all(partial(self._writer.clear, pod) for pod in stale if not is_placeholder(pod))
        free(self._writer, filter(is_placeholder, stale))
        if case.decision is not None:
            self._set_free(self._planner.held_back(case.decision), case)

    def _spare(self, case: GangRound, picture: ClusterView) -> None:
        """Of a plan that fell, change the victims that still run and are none of the new plan.

        An eviction that was sent for it may still be on its way, from another leader or from before a timeout.
        """
        if case.fallen is None:
            return
        plan_id = case.fallen.plan_id
        going = {victim.uid for victim in case.record.victims} if case.record is not None else set()
        pods = [picture.live[v.uid] for v in case.fallen.victims if v.uid in picture.live and v.uid not in going]
        self._writer.all(partial(self._writer.spare, pod, plan_id) for pod in pods if not pod.terminating)

    def _set_free(self, pods: Sequence[Pod], case: GangRound) -> None:
        """Delete gated members that only their own affinity keeps from a place; their controllers make them again.

        A gated pod has never run, and no budget counts it. One that nobody would make again, or only at a price for its
        workload (`planning.pins.REMAKERS`), stays, and its gang's message says what to do.
        """
        for pod in pods:
            meta = pod.metadata  # by its version: one that somebody has let go meanwhile is not to be touched
            if self._writer.evict(meta.namespace, meta.name, meta.uid, version=meta.resource_version).done:
                self._reporter.set_free(case, pod)

    def _nominate(
        self, case: GangRound, members: Iterable[Planned], told: Mapping[str, Condition] | None = None
    ) -> bool:
        """Write nominations, each with what its pod says from now on (by uid; a released pod speaks for itself)."""
        if case.record is None:
            return False
        plan_id = case.record.plan_id
        self._probes.forget(plan_id)
        said = told or {}
        written = self._writer.all(
            partial(hold, self._writer, case.gang.key, m, plan_id, said.get(m.pod.metadata.uid))
            if to_come(m.pod)
            else partial(self._writer.nominate, m.pod, m.node, plan_id, said.get(m.pod.metadata.uid))
            for m in members
        )
        return all(each.done for each in written)

    def _take_over(self, case: GangRound, heirs: Sequence[tuple[str, Planned]]) -> None:
        """Give pods that have come the places that were planned for them: in the record first, then by nomination."""
        names = {seat: member.pod.metadata for seat, member in heirs}
        if self._reporter.taken_over(case, names):
            case.record = record_from(case.status)
            self._nominate(case, [member for _, member in heirs])

    def _evict(self, case: GangRound, victims: Sequence[PlannedVictim], picture: ClusterView) -> None:
        """Evict all victims, or none while one would be refused or nobody can say: the next round asks again."""
        tried = self._send_evictions(victims, picture, dry_run=True)
        refusal = self._refusal(victims, tried)
        if not refusal and not any(each.result in (Result.LATER, Result.CONFLICT) for each in tried):
            sent = self._send_evictions(victims, picture, dry_run=False)
            self._await_budgets(victims, picture)
            for victim, written in zip(victims, sent, strict=True):
                if written.done:
                    self._reporter.evicted(case, victim)
            refusal = self._refusal(victims, sent)
        if refusal:
            self._give_up(case, refusal, picture)

    def _await_budgets(self, victims: Sequence[PlannedVictim], picture: ClusterView) -> None:
        """Let no round begin before it sees what these evictions have taken of disruption budgets."""
        spent = {each.metadata.namespace for each in picture.snapshot.budgets} & {each.namespace for each in victims}
        for namespace in sorted(spent):
            self._writer.read_back(f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets")

    def _send_evictions(
        self, victims: Sequence[PlannedVictim], picture: ClusterView, *, dry_run: bool
    ) -> list[Written]:
        """Each as it was seen: one that has changed may not be a victim any more."""
        seen = [picture.live[victim.uid].metadata for victim in victims]
        return self._writer.all(
            partial(self._writer.evict, v.namespace, v.name, v.uid, version=meta.resource_version, dry_run=dry_run)
            for v, meta in zip(victims, seen, strict=True)
        )

    def _refusal(self, victims: Sequence[PlannedVictim], answers: Sequence[Written]) -> str:
        """Why the first refused eviction was refused; "" where all were accepted (or the victim is gone already)."""
        for victim, written in zip(victims, answers, strict=True):
            if written.result in (Result.REFUSED, Result.FAILED):
                return f"eviction of {victim.namespace}/{victim.name} was refused: {written.message}"
        return ""

    def _give_up(self, case: GangRound, refusal: str, picture: ClusterView) -> None:
        """Drop a plan whose victims may not go, and look again when the budgets may have changed."""
        self._writer.all(partial(self._writer.clear, pod) for pod in case.held if not is_placeholder(pod))
        free(self._writer, case.placeholders.values())
        case.record = None
        case.step = NeedPlan(refusal, cause=Cause.EVICTION_REFUSED)
        self._reporter.invalidated(case, case.step)
        case.decision = self._planner.hold_off(case.gang, refusal, picture)

    def _release(self, case: GangRound, members: Sequence[Planned], picture: ClusterView) -> None:
        if case.record is None or not self._probes.seen(case.record.plan_id):
            return
        flavors = flavors_in_use(case.gang)
        domain = solved_domain(settled(case.gang), _members(case), picture.snapshot, picture.topologies)
        domain = (*domain, *node_labels(flavors)) if domain else ()
        added = any(each.tolerations for each in flavors)
        nodes = {state.name: state.node for state in picture.snapshot.nodes}
        time = now()
        patches = [
            (m.pod, release_patch(m.pod, nodes[m.node], domain=domain, now=time, tolerating=added))
            for m in in_order(members, case.gang, picture.snapshot)
        ]
        written = self._writer.all([partial(self._writer.release, *each) for each in patches])
        if all(each.done for each in written):
            self._reporter.released(case, members)


def _members(case: GangRound) -> list[Planned]:
    record = case.record
    pods = [member.pod for member in case.gang.members]
    return [
        Planned(pod, node, case.placeholders.get(pod.metadata.uid))
        for pod in pods
        if record and (node := record.node_of(pod.metadata.uid)) is not None
    ]
