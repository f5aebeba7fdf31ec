"""The gangs that need a plan in one round of the controller, and what is known of them by now."""

from collections.abc import Iterable, Mapping, Sequence

from controller.cluster_view import ClusterView
from controller.scheduling.counting import Room
from controller.scheduling.standing_noes import Fuller
from controller.scheduling.taking import Taking, premises_of
from gangs.model import Gang, GangKey
from planning.decision import Decision
from planning.framing.priorities import with_priorities
from planning.gang_order import in_order


class PlanningRound:
    """`known`: the answers that there are so far. `aside`: those that counting rules out, of whom nothing is known.
    `pausing`: whether a no was told though its ground has changed.
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
        self.aside = frozenset[GangKey]()
        self.pausing = False

    def highest(self, keys: Iterable[GangKey]) -> list[GangKey]:
        """Those of the highest priority, in order."""
        classes = self.picture.snapshot.priority_classes
        ordered = in_order(with_priorities(self.gangs[key], classes) for key in keys)
        return [each.key for each in ordered if each.priority == ordered[0].priority]
