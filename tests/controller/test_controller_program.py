"""The controller program on the local API server: it waits for its lease, leads, releases the lease, loses it."""

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from controller_scene import SETTLED, Scene, place
from local_api.server import UNREACHABLE, Fault, refused

from controller.leadership.election import Election, Term
from controller.leadership.lease import LeaseTiming
from controller.serving import Server

LEASES = "/apis/coordination.k8s.io/v1/namespaces/phalanx-system/leases"
LEASE = f"{LEASES}/phalanx-controller"
QUICK = LeaseTiming(lease=0.9, renew_deadline=0.6, retry=0.1)
STEADY = LeaseTiming(lease=300.0, renew_deadline=200.0, retry=0.1)
"""A leader that renews in time even on a machine that stands still for minutes."""
_MERGE = "application/merge-patch+json"


def holder(scene: Scene) -> str:
    """Return the identity of the lease's holder; "" if there is no lease or no holder."""
    items = scene.api.ask("GET", LEASES)["items"]
    return str(items[0]["spec"].get("holderIdentity", "")) if items else ""


@contextmanager
def running(work: Callable[[threading.Event], Any]) -> Iterator[threading.Event]:
    """Run `work` in a thread for the duration of the context; stop it at the end."""
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,))
    thread.start()
    try:
        yield stop
    finally:
        stop.set()
        thread.join()


def test_it_takes_the_lease_places_a_gang_and_gives_the_lease_up(scene: Scene, tmp_path: Path) -> None:
    settings = replace(SETTLED, kubeconfig=scene.api.kubeconfig(tmp_path), identity="one")
    server = Server(settings)
    assert "not listed yet" in server.unready()
    with running(server.run):
        scene.api.wait(lambda: holder(scene) == "one", "the lease to be taken")
        place(scene)
        scene.finish("a", "b")
        scene.await_phase("Placed")
        assert server.unready() == ""
    assert holder(scene) == ""


def test_what_it_has_read_of_the_cluster_is_no_work_for_the_garbage_collector(scene: Scene, tmp_path: Path) -> None:
    """With 1,000 nodes a full round of it took 0.09 s of the processor, in the middle of a gang's."""
    gc.unfreeze()
    try:
        with running(Server(replace(SETTLED, kubeconfig=scene.api.kubeconfig(tmp_path), identity="one")).run):
            scene.api.wait(lambda: holder(scene) == "one", "the lease to be taken")
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_told_to_stop_before_it_has_seen_the_cluster_it_ends(scene: Scene, tmp_path: Path) -> None:
    scene.api.fault("GET /api/v1/nodes", *[refused(500, "InternalError")] * 100)
    server = Server(replace(SETTLED, kubeconfig=scene.api.kubeconfig(tmp_path)))
    with running(server.run):
        scene.api.wait(lambda: any(each.code == 500 for each in scene.api.requests), "a refusal")
    assert holder(scene) == ""


class Candidate:
    """A candidate in the leader election that only records its terms."""

    def __init__(self, scene: Scene, folder: Path, name: str, timing: LeaseTiming = STEADY) -> None:
        self.terms: list[Term] = []
        self.election = Election(scene.api.connect(folder), identity=name, timing=timing)

    def run(self, stop: threading.Event) -> None:
        """Take part in the election until `stop` is set."""
        self.election.run(self._lead, stop)

    def _lead(self, term: Term) -> None:
        self.terms.append(term)
        term.lost.wait()


def test_one_waits_until_the_other_gives_the_lease_up(scene: Scene, tmp_path: Path) -> None:
    first, second = (Candidate(scene, tmp_path, name) for name in ("first", "second"))
    with running(first.run) as stop:
        scene.api.wait(lambda: holder(scene) == "first", "the first to lead")
        with running(second.run):
            scene.api.wait(lambda: scene.api.ask("GET", LEASE)["metadata"]["resourceVersion"] > "1010", "renewals")
            assert (first.election.leading, second.election.leading, second.terms) == (True, False, [])
            stop.set()
            scene.api.wait(lambda: holder(scene) == "second", "the second to lead")
            assert scene.api.ask("GET", LEASE)["spec"]["leaseTransitions"] == 1


@pytest.mark.parametrize("fault", [UNREACHABLE, refused(500, "InternalError")], ids=["unreachable", "failing"])
def test_a_leader_that_cannot_renew_stops_and_another_takes_over_when_the_lease_expires(
    scene: Scene, tmp_path: Path, fault: Fault
) -> None:
    first, second = (Candidate(scene, tmp_path, name, QUICK) for name in ("first", "second"))
    with running(first.run) as stop:
        scene.api.wait(lambda: first.terms, "the first to lead")
        scene.api.fault(f"(PUT|GET) {LEASE}$", *[fault] * 1000)
        assert first.terms[0].lost.wait(60.0)
        assert first.terms[0].left() == 0
        stop.set()
        scene.api.wait(lambda: not first.election.leading, "the first to end")
        scene.api.mend()
        with running(second.run):
            scene.api.wait(lambda: holder(scene) == "second", "the second to lead")


def test_a_leader_whose_lease_is_anothers_stops_at_once(scene: Scene, tmp_path: Path) -> None:
    first = Candidate(scene, tmp_path, "first")
    with running(first.run):
        scene.api.wait(lambda: first.terms, "the first to lead")
        taken = {"spec": {"holderIdentity": "other", "acquireTime": "2026-01-01T00:00:00.000000Z"}}
        scene.api.ask("PATCH", LEASE, taken, _MERGE)
        assert first.terms[0].lost.wait(60.0)
        assert holder(scene) == "other"


def test_a_lease_that_somebody_touches_or_deletes_is_still_ours_or_made_anew(scene: Scene, tmp_path: Path) -> None:
    first = Candidate(scene, tmp_path, "first")
    with running(first.run):
        scene.api.wait(lambda: first.terms, "the first to lead")
        scene.api.ask("PATCH", LEASE, {"metadata": {"labels": {"touched": "1"}}}, _MERGE)
        version = scene.api.ask("GET", LEASE)["metadata"]["resourceVersion"]
        scene.api.wait(lambda: scene.api.ask("GET", LEASE)["metadata"]["resourceVersion"] > version, "a renewal")
        assert not first.terms[0].lost.is_set()
        scene.api.ask("DELETE", LEASE)
        assert first.terms[0].lost.wait(60.0)
        scene.api.wait(lambda: len(first.terms) > 1, "the next term")
