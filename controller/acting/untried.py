"""Released members that no scheduler tries: they are reported, their capacity is freed, and they may be recreated.

A member keeps the scheduler that its spec names if that scheduler runs (`gangs.coexistence.running_schedulers`).
Whether it really runs shows only after the release. A scheduler that does not try a member is recorded as absent in the
ConfigMap `phalanx-schedulers`. The webhook reads it, too, so recreated pods do not get that scheduler again. The stock
scheduler is never recorded, because a long queue looks the same, and there is no other scheduler to use.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from controller.cluster_view import ClusterView
from controller.defaults import UNTRIED_SECONDS
from controller.error_backoff import ErrorBackoff
from controller.reconcile_state import Effects, ReconcileState
from controller.status.reporting import Reporter
from controller.telemetry.metrics import Metrics
from controller.writes.writer import Writer, Written
from gangs.coexistence.running_schedulers import CONFIG_KIND, Learnt, learnable, learnt, misdirected, runs
from gangs.manifests import MalformedError
from gangs.model import GangKey
from gangs.sources import Sources
from gangs.workloads.jobs import JOB_GROUP, JOB_KIND, controller_of, job_of, job_owner
from kube.keys import GATE, SCHEDULERS, STOCK_SCHEDULER, SYSTEM_NAMESPACE, TAKEN_BACK
from kube.objects import Pod
from kube.scheduling import released, tried
from kube.scheduling_groups import group_of, groups_held_back
from planning.messages.wording import pods as counted
from planning.pins import made_again
from timing.backoff import Backoff
from timing.clock import SYSTEM_CLOCK, Clock, rfc3339, seconds_since

LOG = logging.getLogger(__name__)

SPREAD_SECONDS = 5.0
"""The most seconds until every replica of the webhook has read a change of the ConfigMap."""
MOST_NOTED = 50
"""The most schedulers that the ConfigMap records as absent. The one recorded longest ago is removed first."""
_LONGER = Backoff(first=1.0, longest=128.0)
"""How long a scheduler must be silent to be recorded again, as a multiple of the usual limit. It doubles each time."""
_CONFIG = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps/{SCHEDULERS}"


@dataclass(frozen=True, slots=True)
class Untried:
    """Released members of one gang that name the same scheduler, and that this scheduler has not tried in time.

    `dead`: whether the scheduler has tried no other pod either since the release of these members. Always False for the
    stock scheduler.
    """

    scheduler: str
    pods: tuple[Pod, ...]
    dead: bool


class Reclaimer:
    """Frees the capacity of released members that no scheduler has tried in time. If possible, it evicts these members
    so that their controllers recreate them.

    :param seconds: how long a scheduler may take to try a released member.
    """

    def __init__(
        self,
        writer: Writer,
        reporter: Reporter,
        metrics: Metrics,
        error_backoff: ErrorBackoff,
        *,
        seconds: float = UNTRIED_SECONDS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._error_backoff = error_backoff
        self._writer = writer
        self._reporter = reporter
        self._metrics = metrics
        self._seconds = seconds
        self._count = 0
        """The number of untried members found in this reconcile so far, for the metric."""

    def reclaim(self, gang_states: Sequence[ReconcileState], cluster_view: ClusterView) -> Mapping[GangKey, Effects]:
        """Free the capacity of released members that their scheduler has not tried to schedule in time, in all gangs.

        Return the effects by gang, with the messages about these members.
        """
        self._count = 0
        effects = self._error_backoff.run_steps(gang_states, lambda each: self._handle(each, cluster_view.sources))
        self._metrics.untried.set(self._count)
        return effects

    def _handle(self, gang_state: ReconcileState, sources: Sources) -> Effects:
        """Free the capacity of one gang's released members whose scheduler is dead, and report the members that it has
        not tried.

        Add the number of untried members to `_count`.
        """
        waiting = [m.pod for m in gang_state.gang.members if not m.pod.bound]
        held_back = groups_held_back(waiting)
        free = [pod for pod in waiting if not pod.spec.scheduling_gates and group_of(pod) not in held_back]
        held = [pod for pod in waiting if _held(pod, sources)]
        written = self._make_again(held, gang_state, sources)
        found = self._untried(free, gang_state, sources)
        for each in found:
            if each.dead:
                written += self._take_back(each, gang_state, sources)
        message = "; ".join(self._message(each, sources) for each in found)
        self._count += sum(len(each.pods) for each in found)
        return Effects(written=bool(written), watched=bool(free or held), untried=message)

    def _untried(self, pods: Sequence[Pod], gang_state: ReconcileState, sources: Sources) -> list[Untried]:
        by_scheduler: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in pods:
            if not pod.terminating and not tried(pod) and self._late(_released_at(pod, gang_state.status)):
                by_scheduler[pod.spec.scheduler_name or STOCK_SCHEDULER].append(pod)
        return [
            Untried(name, tuple(late), dead=_dead(name, late, gang_state.status, sources))
            for name, late in sorted(by_scheduler.items())
        ]

    def _late(self, since: str, factor: float = 1.0) -> bool:
        waited = seconds_since(since, self._clock.wall())
        return waited is not None and waited > self._seconds * factor

    def _take_back(self, late: Untried, gang_state: ReconcileState, sources: Sources) -> list[Written]:
        """Free the capacity of untried members whose scheduler is dead.

        If the scheduler is not known to be absent yet, record that. Otherwise delete the members, so that their
        controllers recreate them for another scheduler.
        """
        written = []
        for pod in late.pods:
            if TAKEN_BACK not in pod.metadata.annotations:
                written.append(self._writer.take_back(pod, rfc3339(self._clock.wall())))
                if written[-1].done:
                    self._reporter.taken_back(gang_state, pod, self._seconds)
        if runs(late.scheduler, sources):
            return written + self._learn(late, gang_state, sources)
        back = [pod for pod in late.pods if TAKEN_BACK in pod.metadata.annotations]
        return written + self._make_again(back, gang_state, sources)

    def _learn(self, late: Untried, gang_state: ReconcileState, sources: Sources) -> list[Written]:
        """Record in the ConfigMap `phalanx-schedulers` that the scheduler does not run, if it has been silent for long
        enough.

        For each further record, the scheduler must have been silent for twice as long as for the record before.
        """
        before = learnt(late.scheduler, sources)
        times = before.times if before else 0
        silent = all(self._late(_released_at(pod, gang_state.status), _LONGER.delay(times + 1)) for pod in late.pods)
        seen = sources.get("", CONFIG_KIND, SYSTEM_NAMESPACE, SCHEDULERS)
        if not silent or seen is None or not learnable(late.scheduler, sources):
            return []
        noted: dict[str, str | None] = dict.fromkeys(_oldest(late.scheduler, sources))
        noted[late.scheduler] = str(Learnt(rfc3339(self._clock.wall()), times + 1))
        written = self._writer.merge(_CONFIG, {"data": noted}, seen)
        if not written.done:
            LOG.warning("ConfigMap %s/%s: %s", SYSTEM_NAMESPACE, SCHEDULERS, written.message)
        return [written]

    def _make_again(self, pods: Sequence[Pod], gang_state: ReconcileState, sources: Sources) -> list[Written]:
        """Evict the members that their controllers recreate without harm to the workload (`_remade`). Return the
        writes.

        If a pod has been bound meanwhile, it stays, because the eviction names the pod's version. A pod that was
        created after its scheduler was known to be absent stays, too, so that no pod is recreated again and again.
        """
        written = []
        for pod in pods:
            meta, known = pod.metadata, learnt(pod.spec.scheduler_name, sources)
            if not _remade(pod, pods, sources) or (known is not None and not _before(pod, known, self._clock.wall())):
                continue
            written.append(self._writer.evict(meta.namespace, meta.name, meta.uid, version=meta.resource_version))
            if written[-1].done:
                self._metrics.made_again.inc()
                self._reporter.made_again(gang_state, pod)
        return written

    def _message(self, late: Untried, sources: Sources) -> str:
        names = ", ".join(sorted(pod.metadata.name for pod in late.pods)[:3])
        more = f" and {len(late.pods) - 3} more" if len(late.pods) > 3 else ""  # noqa: PLR2004 - as many as were named
        text = (
            f"{late.scheduler} has not tried {counted(len(late.pods))} ({names}{more}) "
            f"within {self._seconds:g} s of their release"
        )
        if late.scheduler == STOCK_SCHEDULER:
            return f"{text}: does it run, or is its queue that long? Their capacity stays reserved"
        if not late.dead:
            return f"{text}, though it tries others: their capacity stays reserved"
        return f"{text}: their capacity is freed; {_remedy(late.pods, sources)}"


def _held(pod: Pod, sources: Sources) -> bool:
    """Return whether the pod is a gated member that names a scheduler which does not run in the cluster."""
    return pod.gated_by(GATE) and not pod.terminating and misdirected(pod, sources)


def _released_at(pod: Pod, status: Mapping[str, object]) -> str:
    """Return when the member was released (RFC 3339); "" if the time is not known.

    A pod that an older version of Phalanx released lacks the time. Then it is the time of the gang's release.

    :param status: the status of the gang's Gang object.
    """
    if since := released(pod):
        return since
    conditions = status.get("conditions")
    for each in conditions if isinstance(conditions, list) else ():
        if (each.get("type"), each.get("status")) == ("Released", "True"):
            return str(each.get("lastTransitionTime", ""))
    return ""


def _dead(name: str, late: Sequence[Pod], status: Mapping[str, object], sources: Sources) -> bool:
    """Return whether the scheduler `name` has tried no pod at all since the last of these members was released.

    Always False for the stock scheduler.
    """
    return name != STOCK_SCHEDULER and sources.tried.get(name, "") <= max(_released_at(pod, status) for pod in late)


def _before(pod: Pod, known: Learnt, now: datetime) -> bool:
    """Return whether the pod was created before every replica of the webhook knew that its scheduler is absent.

    If it was, a recreated pod will get another scheduler. The result is False as long as a replica may not know of the
    absence yet.

    :param known: the record in the ConfigMap that the scheduler does not run.
    """
    since = datetime.fromisoformat(known.since)
    came = seconds_since(pod.metadata.creation_timestamp or "", since)
    waited = seconds_since(known.since, now)
    return waited is not None and waited > SPREAD_SECONDS and came is not None and came > -SPREAD_SECONDS


def _oldest(name: str, sources: Sources) -> list[str]:
    """Return the schedulers to remove from the ConfigMap `phalanx-schedulers` so that `name` can be recorded, oldest
    first.

    Empty if fewer than `MOST_NOTED` are recorded.
    """
    config = sources.get("", CONFIG_KIND, SYSTEM_NAMESPACE, SCHEDULERS) or {}
    noted = {each: known.since for each in config.get("data") or {} if (known := learnt(each, sources)) is not None}
    noted.pop(name, None)
    return sorted(noted, key=lambda each: (noted[each], each))[: max(0, len(noted) + 1 - MOST_NOTED)]


def _remade(pod: Pod, others: Sequence[Pod], sources: Sources) -> bool:
    """Return whether the pod's controller recreates it if it is deleted, without harm to the workload.

    True for a ReplicaSet and the like, and for a Job whose `backoffLimit` allows the failures that deletions count as.

    :param others: the members that would be deleted together with the pod, including the pod.
    """
    if made_again(pod):
        return True
    owner = job_owner(pod)
    if owner is None:
        return False
    manifest = sources.get(JOB_GROUP, JOB_KIND, pod.metadata.namespace, owner.name)
    siblings = sum(controller_of(each) == owner for each in others)
    return manifest is not None and _affords(manifest, siblings)


def _affords(manifest: Mapping[str, object], failures: int) -> bool:
    """Return whether a Job goes on after `failures` more failures. Kubernetes counts each deleted pod as failed."""
    try:
        job = job_of(manifest)
    except MalformedError:
        return False
    limit = 6 if job.spec.backoff_limit is None else job.spec.backoff_limit
    per_index = job.spec.backoff_limit_per_index
    return job.status.failed + failures <= limit and (per_index is None or job.status.failed == 0 < per_index)


def _remedy(late: Sequence[Pod], sources: Sources) -> str:
    """Return the end of the message about released members that no scheduler has tried: that they are deleted and
    recreated, or what the user has to do.
    """
    if all(_remade(pod, late, sources) for pod in late):
        return f"they are deleted, to be recreated for {STOCK_SCHEDULER}"
    owner = controller_of(late[0])
    if owner is None:
        return f"delete them and create them again, for {STOCK_SCHEDULER} to start them"
    if job_owner(late[0]) is not None:
        whose = f"{owner.kind} {late[0].metadata.namespace}/{owner.name}"
        return f"suspend {whose} and resume it (spec.suspend), for its pods to be recreated for {STOCK_SCHEDULER}"
    return f"delete them, for {owner.kind} {owner.name} to recreate them"
