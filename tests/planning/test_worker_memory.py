"""A worker's peak memory is its own, without the memory of the process that started it."""

import numpy as np
import pytest

from planning.solver_pool.process import COMMAND, Worker
from planning.solver_pool.tasks import Placed, Task
from solver.nodes import Node, nodes_of
from solver.problem import Limits, Member, PodSet, Problem, Shape

HELD = 512 << 20


@pytest.mark.long
def test_what_the_parent_holds_is_not_the_peak_of_its_worker() -> None:
    held = np.ones(HELD, dtype=np.uint8)
    node = Node("node-1", (), (1,), (0,))
    pod_set = PodSet("main", (Member("pod", 0),), 1)
    problem = Problem(("node",), ("gpu",), nodes_of((node,)), (Shape((1,), frozenset({0})),), (pod_set,), 1)
    worker = Worker(COMMAND)
    try:
        worker.await_ready()
        reply = next(worker.replies(Task(problem, Limits()), seconds=60.0))
    finally:
        worker.close()
    assert isinstance(reply, Placed)
    assert 0 < reply.peak < held.nbytes
