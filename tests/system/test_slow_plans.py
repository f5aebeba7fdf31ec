"""A gang that is slow to plan, on a real control plane: no other gang waits for it, and it is placed in the end.

hog   asked ── 3 s, nothing found ──┬────────── 36 s more ──────────┤ placed
team              runs              ├ loses a member, gets another  ┤
late                                ├ comes, is placed, released     ┤
"""

import os
import sys
from collections.abc import Iterator

import pytest
from system import SPINE, Phalanx, all_bound, numbered, pod, pod_group

from controlplane.control_plane import free_ports
from controlplane.recording import bound
from controlplane.running.processes import Program
from kube.keys import SYSTEM_NAMESPACE

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

MUST_SPINE = ("SpineLayer", "MustGather")
HOG = 5
"""The number of members of the gang that is hard to place; no other gang has as many."""
TAKES = 36.0

SLOW_SOLVER = f"""
import time
from planning.solver_pool import pool as workers
from solver.plan import NoPlan, Proof

solve = workers.Workers.solve

def slowly(self, problem, limits):
    if sum(len(each.members) for each in problem.sets) == {HOG}:
        time.sleep(min({TAKES}, limits.seconds))
        if limits.seconds < {TAKES}:
            return NoPlan(Proof.UNPROVEN)
    return solve(self, problem, limits)

workers.Workers.solve = slowly
from cli.main import main
main()
"""


@pytest.fixture
def controller(phalanx: Phalanx) -> Iterator[Program]:
    """A controller for which one gang is hard to place. It leads alone."""
    phalanx.cluster.program("controller").kill()
    (port,) = free_ports(1)
    config = phalanx.cluster.kubeconfig_for(SYSTEM_NAMESPACE, "phalanx-controller")
    command = [sys.executable, "-c", SLOW_SOLVER, "controller", f"--kubeconfig={config}"]
    settings = ["--identity=slow-solver", "--lease-seconds=3", "--metrics-port=0", "--solve-seconds=60"]
    where = ["--health-address=127.0.0.1", f"--health-port={port}"]
    environment = {**os.environ, "HOME": str(phalanx.cluster.directory)}
    program = phalanx.cluster.run("slow-solver", [*command, *settings, *where], environment)
    yield program
    print(program.tail())  # noqa: T201 - for the report of a failed test
    program.kill()


def test_a_gang_that_takes_36_seconds_to_place_holds_up_no_release_and_no_replacement(
    phalanx: Phalanx, controller: Program
) -> None:
    assert controller.running
    phalanx.guide_nodes()
    phalanx.submit(pod_group("team", 4, MUST_SPINE), *(pod(name, "team") for name in numbered("team", 4)))
    before = phalanx.await_bound(numbered("team", 4))
    with phalanx.record() as recorder:
        phalanx.submit(pod_group("hog", HOG, MUST_SPINE), *(pod(name, "hog") for name in numbered("hog", HOG)))
        phalanx.wait(lambda: phalanx.status("hog").get("reason") == "NotProven", "the hog to be told as not proven")
        late = [pod(name, "late", nodeSelector={SPINE: "spine-2"}) for name in numbered("late", 2)]
        phalanx.submit(pod_group("late", 2, MUST_SPINE), *late)
        phalanx.cluster.kubectl("delete", "pod", "team-2", "--force", "--grace-period=0")
        phalanx.await_phase("team", "Waiting")
        phalanx.submit(pod("team-2", "team"))
        events = recorder.wait_for(all_bound([*numbered("hog", HOG), *numbered("late", 2), "team-2"]))
    order = [event.name for event in events if bound(event)]
    first = {name: order.index(name) for name in order}
    assert phalanx.nodes_of(numbered("team", 4)) == before
    assert max(first[name] for name in (*numbered("late", 2), "team-2")) < min(first[n] for n in numbered("hog", HOG))
    assert len({phalanx.nodes_of([name])[name] for name in numbered("hog", HOG)}) == HOG
