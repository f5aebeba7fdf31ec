"""Checks whether a plan is stale before a reconcile accepts it: capacity and quota are counted again.

The plan was made on an older snapshot, in a background thread.
"""

from cluster.snapshot import Snapshot
from controller.cluster_view import ClusterView
from controller.release.verifying import lost_room
from controller.scheduling.cluster_changes import basis_of
from controller.scheduling.device_conflicts import device_lost, frees_devices
from controller.scheduling.eviction_checks import EVICTED
from controller.scheduling.planning_requests import PlanningRequest
from gangs.model import Gang
from kube.objects import Pod
from planning.after_plan import after_all
from planning.competing.evicted import evicted_for
from planning.decision import Decision
from planning.framing.disruption_budgets import overdrawn
from planning.framing.running_gangs import cut_short, running_gangs
from planning.quota.flavors import settled
from planning.quota.queueing import charged, still_covered
from planning.quota.usage import Usage, usage_of

NEEDLESS = "there is room without its evictions by now"
MOVED = "nodes or topologies have changed"
OVERSPENT = "others use the quota of its queue by now"


class PlanRevalidation:
    """Checks plans before one reconcile accepts them, each beside the plans that the reconcile has accepted before."""

    def __init__(self, cluster_view: ClusterView) -> None:
        self.accepted: list[Decision] = []
        self._cluster_view = cluster_view
        self._accepted_requests: set[PlanningRequest] = set()
        self._with_accepted: tuple[int, Snapshot] = 0, cluster_view.snapshot
        self._usage: Usage | None = None

    def accept(self, decision: Decision, planning_request: PlanningRequest) -> None:
        """Accept this plan: later checks count its capacity and quota as used."""
        self.accepted.append(decision)
        self._accepted_requests.add(planning_request)
        if self._usage is not None:
            self._usage = charged(decision, self._usage)

    def fault(self, decision: Decision, gang: Gang, planning_request: PlanningRequest) -> str:
        """Return why the plan is stale, so that it no longer fits the present cluster view; "" if it can be accepted.

        :param gang: the present state of the gang. Its request is the one that was planned.
        :param planning_request: the request that found the plan. Plans of one request do not compete with each other.
        """
        before, after = basis_of(planning_request.cluster_view), basis_of(self._cluster_view)
        if self._accepted_requests <= {planning_request} and before.version == after.version:
            return ""
        gang = settled(gang, decision.flavors)
        return (
            self._loses_members(decision)
            or self._moved(decision, planning_request.cluster_view)
            or self._capacity_lost(decision, gang)
            or self._eviction_not_allowed(decision)
            or ("" if still_covered(decision, self._used()) else OVERSPENT)
        )

    def _loses_members(self, decision: Decision) -> str:
        """Return `EVICTED` if members that the plan uses are evicted for other gangs, else ""."""
        going = evicted_for(self._snapshot())
        return EVICTED if any(each.member.pod.key in going for each in decision.assignments) else ""

    def _moved(self, decision: Decision, before: ClusterView) -> str:
        """Return the message `MOVED` if a node of the plan may be in another domain now, else ""."""
        names = {each.node for each in decision.assignments}
        labels = _labels(self._cluster_view.snapshot, names)
        alike = list(before.topologies) == list(self._cluster_view.topologies)
        return "" if alike and labels == _labels(before.snapshot, names) else MOVED

    def _capacity_lost(self, decision: Decision, gang: Gang) -> str:
        """Return why the plan does not fit any more, or `NEEDLESS` if it would fit without its evictions; else ""."""
        node = {each.member.pod.metadata.uid: each.node for each in decision.assignments if not each.held}
        pods = [member.pod for member in gang.members]
        planned = [(pod, node[pod.metadata.uid]) for pod in pods if pod.metadata.uid in node and not pod.bound]
        gone = tuple(each.uid for each in decision.evictions)
        needed = decision.evictions and frees_devices(decision, self._cluster_view)
        if decision.evictions and not needed and not self._shortage(planned, decision, ()):
            return NEEDLESS
        return self._shortage(planned, decision, gone) or device_lost(decision, self._cluster_view)

    def _shortage(self, planned: list[tuple[Pod, str]], decision: Decision, gone: tuple[str, ...]) -> str:
        priority = decision.gang.priority if decision.gang is not None else 0
        return lost_room(planned, self._snapshot(), priority=priority, gone=gone, count_terminating=True)

    def _eviction_not_allowed(self, decision: Decision) -> str:
        """Return why the plan's victims may not all be evicted any more; "" if they may."""
        if not decision.evictions:
            return ""
        there = self._cluster_view.live.keys()
        gone = frozenset(f"{each.namespace}/{each.name}" for each in decision.evictions if each.uid in there)
        snapshot = self._snapshot()
        return cut_short(gone, snapshot, running_gangs(self._cluster_view.reading)) or overdrawn(gone, snapshot)

    def _snapshot(self) -> Snapshot:
        """Return the snapshot as it will be when all plans accepted so far have been carried out."""
        known, snapshot = self._with_accepted
        if known < len(self.accepted):
            snapshot = after_all(self.accepted[known:], snapshot)
            self._with_accepted = len(self.accepted), snapshot
        return snapshot

    def _used(self) -> Usage:
        if self._usage is None:
            self._usage = usage_of(self._cluster_view.charged, self._cluster_view.snapshot)
            for decision in self.accepted:
                self._usage = charged(decision, self._usage)
        return self._usage


def _labels(snapshot: Snapshot, names: set[str]) -> dict[str, object]:
    states = (snapshot.state(name) for name in names)
    return {state.name: state.node.metadata.labels for state in states if state is not None}
