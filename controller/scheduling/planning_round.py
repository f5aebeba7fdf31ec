"""The gangs that need a plan in one reconcile, and the decisions about them so far."""

from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence

from controller.cluster_view import ClusterView
from controller.scheduling.cached_rejections import CachedRejection, fresh_seconds
from controller.scheduling.capacity_bound import CapacityBound
from controller.scheduling.demand import MinimumDemand
from controller.scheduling.monotonicity_check import MonotonicityCheck
from controller.scheduling.plan_revalidation import PlanRevalidation, inputs_of
from controller.scheduling.rejections_by_demand_class import RejectionByDemandClass, renamed
from gangs.model import Gang, GangKey
from planning.decision import Decision
from planning.framing.priorities import with_priorities
from planning.gang_order import in_order


class PlanningRound:
    """The planning state of one reconcile.

    `known`: the decisions so far. `infeasible`: gangs above the capacity bound that have no decision yet.
    `pausing`: whether a rejection was reported although its inputs have changed, because its pause is not over.
    """

    def __init__(
        self,
        gangs: Sequence[Gang],
        cluster_view: ClusterView,
        requests: Mapping[GangKey, object],
        capacity_bound: CapacityBound,
    ) -> None:
        self.gangs = {gang.key: gang for gang in gangs}
        self.requests = requests
        self.cluster_view = cluster_view
        self.inputs = inputs_of(cluster_view)
        self.monotonicity = MonotonicityCheck(cluster_view.snapshot, cluster_view.topologies)
        self.revalidation = PlanRevalidation(cluster_view)
        self.capacity_bound = capacity_bound
        self.known: dict[GangKey, Decision] = {}
        self.infeasible = frozenset[GangKey]()
        self.pausing = False

    def highest(self, keys: Iterable[GangKey]) -> list[GangKey]:
        """Return the keys of the gangs with the highest priority, in planning order."""
        ordered = in_order(with_priorities(self.gangs[key], self.cluster_view.snapshot) for key in keys)
        return [each.key for each in ordered if each.priority == ordered[0].priority]

    def reuse_rejections(
        self,
        left: Collection[GangKey],
        rejections: MutableMapping[GangKey, CachedRejection],
        needs: Mapping[GangKey, tuple[Gang, object, MinimumDemand]],
        at: float,
    ) -> list[Decision]:
        """Reuse rejections that hold in this reconcile for the gangs `left` that have identical requests.

        Return the decisions that are new.

        :param rejections: cached rejections by gang, to which the new ones are added.
        :param at: the present time, in monotonic seconds.
        """
        if not left:
            return []
        holding = (
            (needs[key][2].demand_class, rejections[key])
            for key in self.known
            if key in rejections and self._holds(rejections[key])
        )
        by_class, new = RejectionByDemandClass(holding, self.cluster_view.snapshot), list[Decision]()
        for key in left:
            _, request, demand = needs[key]
            rejection = by_class.of(self.gangs[key], demand.demand_class) if demand.needs else None
            if rejection is not None:
                rejections[key] = renamed(rejection, self.gangs[key], request, at + fresh_seconds(key))
                self.known[key] = rejections[key].decision
                new.append(rejections[key].decision)
        return new

    def _holds(self, rejection: CachedRejection) -> bool:
        """Return whether this reconcile uses the rejection and its inputs have not changed."""
        return self.known.get(rejection.decision.key) is rejection.decision and not rejection.paused
