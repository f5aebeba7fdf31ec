"""Three replicas behind a Service are exchanged one by one, as a Deployment does it, while members are created.

old-0 old-1 old-2          new-0 starts and becomes ready. old-0 gets the signal to end, reports not ready, and ends.
new-0 old-1 old-2          …
new-0 new-1 new-2
"""

import time

import pytest
from balancer import Balancer
from replica import PATIENCE, Load, Mount, Replica, as_controller, gated, lead_the_service_to

from certs.cluster_edge import ensure_serving_certificate
from controlplane.control_plane import ControlPlane, wait_until

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1800), pytest.mark.long]

REPLICAS = 3
NOTICE = "--shutdown-notice-seconds=10"
"""Fifty times as long as the balancer takes to notice."""


def test_a_rolling_restart_of_three_replicas_costs_no_admission(
    plane: ControlPlane, mount: Mount, capsys: pytest.CaptureFixture[str]
) -> None:
    ensure_serving_certificate(as_controller(plane))
    with Balancer() as balancer:
        old = [Replica(plane, f"old-{each}", mount.folder, NOTICE) for each in range(REPLICAS)]
        for each in old:
            balancer.add(each)
        for each in old:
            each.await_that(lambda each=each: each in balancer.ready, "to be called")  # type: ignore[misc]
        lead_the_service_to(plane, balancer.port)
        wait_until(lambda: gated(plane), PATIENCE, "the API server to trust the webhook")
        new: list[Replica] = []
        started = time.monotonic()
        with Load(plane) as load:
            for index, leaving in enumerate(old):
                new.append(surged(plane, balancer, mount, index))
                leaving.end()
                balancer.remove(leaving)
                load.await_more()
        with capsys.disabled():
            text = f"{REPLICAS} replicas exchanged in {time.monotonic() - started:.0f} s"
            print(f"\n{text}: {load.answered} admissions, {len(load.failures)} failed")  # noqa: T201
        assert load.failures == []
        assert balancer.refused == 0
        for each in new:
            each.program.kill()


def surged(plane: ControlPlane, balancer: Balancer, mount: Mount, index: int) -> Replica:
    """One more replica, which the Service knows and finds ready."""
    made = Replica(plane, f"new-{index}", mount.folder, NOTICE)
    balancer.add(made)
    made.await_that(lambda: made in balancer.ready, "to be called")
    return made
