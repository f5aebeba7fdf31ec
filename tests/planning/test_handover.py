"""Nodes arrive at a worker as they were sent, their names and paths once."""

import msgspec
import pytest

from planning.solver_pool.node_layouts import KEPT, Receiver, Sender
from planning.solver_pool.pool import Workers
from planning.solver_pool.tasks import Task
from solver.nodes import Node, NodeTable, nodes_of
from solver.plan import Plan, Proof
from solver.problem import NO_VICTIMS, Limits, Member, PodSet, Problem, Shape, Victim, VictimTable, victim_table
from solver.solve import decide

LIMITS = Limits(seconds=600.0)


class Line:
    """The sender, the receiver, and the last message between them."""

    def __init__(self) -> None:
        self.sender, self.receiver = Sender(), Receiver()
        self.sent = b""

    def over(self, problem: Problem) -> NodeTable:
        """Send the problem and return its nodes as the receiver decodes them."""
        self.sent = msgspec.msgpack.encode(Task(problem, LIMITS), enc_hook=self.sender.pack)
        received = msgspec.msgpack.decode(self.sent, type=Task, dec_hook=self.receiver.unpack)
        return received.problem.nodes


def problem(cluster: int, free: int = 1, terminating: int = 0) -> Problem:
    """Two pods in one rack of a cluster whose nodes have its number."""
    racks = {"a": 0, "b": 0, "c": 1}
    nodes = nodes_of(
        Node(f"{name}-{cluster}", (f"rack-{rack}",), (free,), (terminating,)) for name, rack in racks.items()
    )
    members = (Member("pod-0", 0), Member("pod-1", 0))
    shape = Shape((1,), frozenset(range(len(nodes))))
    return Problem(("rack", "node"), ("gpu",), nodes, (shape,), (PodSet("main", members, 2),), 2, required=0)


@pytest.mark.parametrize(("free", "terminating"), [(1, 0), (-3, 0), (2**58, 1)])
def test_nodes_arrive_as_they_were_sent(free: int, terminating: int) -> None:
    sent = problem(0, free, terminating)
    assert Line().over(sent) == sent.nodes


def test_names_and_paths_are_sent_once_while_amounts_change() -> None:
    line = Line()
    first = line.over(problem(0))
    assert b"rack-1" in line.sent
    second = line.over(problem(0, free=7))
    assert b"rack-1" not in line.sent
    assert second == problem(0, free=7).nodes
    assert second.layout is first.layout


def test_what_was_not_used_for_long_is_sent_again() -> None:
    line = Line()
    for cluster in (0, *range(KEPT + 1), 0, 1):
        assert line.over(problem(cluster)) == problem(cluster).nodes
        assert b"rack-1" in line.sent or cluster == 0


def test_no_nodes_have_as_many_resources_as_there_are() -> None:
    assert nodes_of((), resources=3).free.shape == (0, 3)


def test_amounts_that_cannot_be_added_up_in_64_bits_are_capped() -> None:
    for amount in (2**63 - 1, 2**70):
        nodes = problem(0, amount).nodes
        assert nodes.free.sum() == 2**61 // len(nodes) * len(nodes)
        assert isinstance(decide(problem(0, amount), LIMITS), Plan)
    assert problem(0, -(2**70)).nodes.free.sum() < 0


@pytest.mark.long
def test_workers_answer_for_more_clusters_than_they_keep_and_after_they_were_replaced() -> None:
    pool = Workers(1)
    try:
        for cluster in (0, *range(KEPT + 2), 0):
            answer = pool.solve(problem(cluster), LIMITS)
            assert isinstance(answer, Plan)
            assert answer.proof is Proof.OPTIMAL
        pool.close()
        assert isinstance(again := pool.solve(problem(0), LIMITS), Plan)
        assert again.proof is Proof.OPTIMAL
    finally:
        pool.close()


SOME_VICTIMS = victim_table(
    (
        Victim("default/alone", 2, 10, (1, 2**40), gang=None, started=17),
        Victim("default/old-0", 0, -5, (0, 3), gang=1, started=2**60),
        Victim("default/old-1", 0, 0, (4, 0), gang=0),
    )
)


@pytest.mark.parametrize("victims", [SOME_VICTIMS, NO_VICTIMS])
def test_victims_arrive_as_they_were_sent(victims: VictimTable) -> None:
    sent = msgspec.msgpack.encode(victims, enc_hook=Sender().pack)
    arrived = msgspec.msgpack.decode(sent, type=VictimTable, dec_hook=Receiver().unpack)
    assert list(arrived) == list(victims)
    assert arrived.requests.shape == victims.requests.shape
