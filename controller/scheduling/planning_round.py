"""The gangs that need a plan in one reconcile, and the decisions about them so far."""

from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence

from controller.cluster_view import ClusterView
from controller.scheduling.alike_noes import AlikeNoes, renamed
from controller.scheduling.counting import Room
from controller.scheduling.kept_noes import KeptNo, fresh_seconds
from controller.scheduling.needs import Least
from controller.scheduling.standing_noes import Fuller
from controller.scheduling.taking import Taking, premises_of
from gangs.model import Gang, GangKey
from planning.decision import Decision
from planning.framing.priorities import with_priorities
from planning.gang_order import in_order


class PlanningRound:
    """The planning state of one reconcile.

    `known`: the decisions so far. `aside`: gangs above the capacity bound that have no decision yet. `pausing`: whether
    a rejection was reported although its inputs have changed, because its pause is not over.
    """

    def __init__(
        self, gangs: Sequence[Gang], picture: ClusterView, requests: Mapping[GangKey, object], room: Room
    ) -> None:
        self.gangs = {gang.key: gang for gang in gangs}
        self.requests = requests
        self.picture = picture
        self.premises = premises_of(picture)
        self.fuller = Fuller(picture.snapshot, picture.topologies)
        self.taking = Taking(picture)
        self.room = room
        self.known: dict[GangKey, Decision] = {}
        self.infeasible = frozenset[GangKey]()
        self.pausing = False

    def highest(self, keys: Iterable[GangKey]) -> list[GangKey]:
        """Return the keys of the gangs with the highest priority, in planning order."""
        ordered = in_order(with_priorities(self.gangs[key], self.picture.snapshot) for key in keys)
        return [each.key for each in ordered if each.priority == ordered[0].priority]

    def answer_alike(
        self,
        left: Collection[GangKey],
        noes: MutableMapping[GangKey, KeptNo],
        needs: Mapping[GangKey, tuple[Gang, object, Least]],
        at: float,
    ) -> list[Decision]:
        """Reuse rejections that hold in this reconcile for the gangs `left` that have identical requests.

        Return the decisions that are new.

        :param noes: cached rejections by gang, to which the new ones are added.
        :param at: the present time, in monotonic seconds.
        """
        if not left:
            return []
        holding = ((needs[key][2].alike, noes[key]) for key in self.known if key in noes and self._holds(noes[key]))
        alike, new = AlikeNoes(holding, self.picture.snapshot), list[Decision]()
        for key in left:
            _, request, least = needs[key]
            kept = alike.of(self.gangs[key], least.alike) if least.needs else None
            if kept is not None:
                noes[key] = renamed(kept, self.gangs[key], request, at + fresh_seconds(key))
                self.known[key] = noes[key].decision
                new.append(noes[key].decision)
        return new

    def _holds(self, kept: KeptNo) -> bool:
        """Return whether this reconcile uses the rejection and its inputs have not changed."""
        return self.known.get(kept.decision.key) is kept.decision and not kept.paused
