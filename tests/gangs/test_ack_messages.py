"""ACK Lingjun's sentence, field by field."""

from ack_objects import LINGJUN, job, member, network
from written import sources

from gangs.ack.messages import no_room_messages
from gangs.dialects.reading import read_all
from gangs.model import Gang
from gangs.no_room import NodeOffer, NoRoom
from gangs.sources import Sources

NO_GPU = "Insufficient nvidia.com/gpu"


def gang(strategies: str = "[{layer: PoDTopologyLayer, strategy: MustGather}]") -> Gang:
    """A gang of two bare pods."""
    objects = sources(LINGJUN, network(2, strategies)).objects
    (found,) = read_all(Sources([member("a"), member("b")], objects, sharing={"*": "*"})).gangs
    return found


def no_room(of: Gang, offers: list[NodeOffer], *offered: tuple[tuple[str, ...], int], evicting: bool = False) -> NoRoom:
    """Return the case that no member has a node. `offered`: the path and the slots of each domain."""
    return NoRoom(
        gang=of,
        pods=[each.pod for each in of.members],
        nodes=len(offers),
        offered=[("PoDTopologyLayer", path, slots) for path, slots in offered],
        evicting=evicting,
        node_offers=lambda: offers,
    )


def test_the_nodes_that_offer_nothing_are_counted_by_their_reasons() -> None:
    offers = [
        NodeOffer("n1", 1, "", ("p1", "a1")),
        NodeOffer("n2", 0, NO_GPU, ("p1", "a1")),
        NodeOffer("n3", 1, "", ("p2", "a2")),
        NodeOffer("n4", 0, "node(s) were unschedulable", ("p2", "a2")),
    ]
    expected = (
        "0/4 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) were unschedulable, "
        "1 [NetworkTopology begin] cluster total nodes:4, 2 node provide 2 freeSlot, "
        "2 node unavailable cause Insufficient nvidia.com/gpu, "
        "node(s) were unschedulable, job desireNum:2, all fail topology paths by MustGather reason: "
        "[path:RootNode->p1, freeSlotNum:1], [path:RootNode->p2, freeSlotNum:1] [NetworkTopology end], "
        "1 NetworkTopology bestPlan empty. network topology job net/sample gets rejected due to pod is unschedulable."
    )
    assert no_room_messages(no_room(gang(), offers, (("p1",), 1), (("p2",), 1))) == [expected, expected]


def test_no_node_at_all_offers_anything() -> None:
    offers = [NodeOffer("n1", 0, NO_GPU, ("p1", "a1"))]
    (text, _) = no_room_messages(no_room(gang(), offers, (("p1",), 0))) or ["", ""]
    assert text == (
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu, [NetworkTopology begin] cluster total nodes:1, "
        "0 node provide 0 freeSlot, 1 node unavailable cause Insufficient nvidia.com/gpu, job desireNum:2, "
        "all fail topology paths by MustGather reason: [path:RootNode->p1, freeSlotNum:0] [NetworkTopology end]. "
        "network topology job net/sample gets rejected due to pod is unschedulable."
    )


def test_without_a_layer_that_must_be_shared_the_whole_cluster_is_the_path() -> None:
    loose = gang("[{layer: ASWTopologyLayer, strategy: PreferGather}]")
    (text, _) = no_room_messages(no_room(loose, [NodeOffer("n1", 1, "", ("p1", "a1"))], ((), 1))) or ["", ""]
    assert "all fail topology paths by freeSlot reason: [path:RootNode, freeSlotNum:1]" in text


def test_while_victims_leave_there_is_room_and_the_guide_has_no_words() -> None:
    assert no_room_messages(no_room(gang(), [], evicting=True)) is None


def test_a_job_without_completions_waits_for_nobody_once_a_pod_has_ended_well() -> None:
    """Such a Job makes no more pods then (Kubernetes documentation, "Jobs")."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "pi", "controller": True, "uid": ""}
    ended = job(2).rstrip() + "\n        status: {succeeded: 1}\n"
    objects = sources(LINGJUN, network(2), ended).objects
    (found,) = read_all(Sources([member("pi-a", owner=owner)], objects, sharing={"*": "*"})).gangs
    assert (found.min_member, found.expected) == (1, 1)
