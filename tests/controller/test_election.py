"""Leader election on a real API server: one leads, and never two at once."""

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from wires import Wire, wire_to

from cluster.api.connecting import connect
from cluster.api.transport import MERGE_PATCH, Transport
from controller.leadership.election import Election, LeadershipLostError, Term
from controller.leadership.lease import LeaseTiming
from controlplane.control_plane import ControlPlane, wait_until

QUICK = LeaseTiming(lease=6, renew_deadline=4, retry=0.2)
"""A leader that cannot renew for four seconds on a busy machine would lose the lead as it should."""
PATIENCE = 60.0
LONG = LeaseTiming(lease=4 * PATIENCE, renew_deadline=2 * PATIENCE, retry=0.2)
NAMESPACE = "default"

pytestmark = pytest.mark.controlplane


class Candidate:
    """A candidate that runs in a thread and keeps a diary of its terms, on one clock for all."""

    def __init__(self, transport: Transport, identity: str, lease: str, timing: LeaseTiming = QUICK) -> None:
        self.identity = identity
        self.stop = threading.Event()
        self.terms: list[list[float]] = []
        self.leads = threading.Event()
        self.lost = threading.Event()
        self.resign = threading.Event()
        self.election = Election(transport, identity=identity, namespace=NAMESPACE, name=lease, timing=timing)
        self.thread = threading.Thread(target=self.election.run, args=(self._lead, self.stop), daemon=True)
        self.thread.start()

    def _lead(self, term: Term) -> None:
        self.terms.append([time.monotonic()])
        self.lost.clear()
        self.leads.set()
        while not term.lost.wait(0.01) and not self.resign.is_set():
            pass
        self.terms[-1].append(time.monotonic())
        self.leads.clear()
        self.lost.set()


Elect = Callable[..., Candidate]


@pytest.fixture
def lease() -> str:
    """Return the name of a Lease that no other test uses."""
    return f"lease-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def elect(control_plane: ControlPlane, lease: str) -> Iterator[Elect]:
    """Makes candidates for one Lease; all are stopped in the end."""
    candidates: list[Candidate] = []

    def make(identity: str, kubeconfig: str | None = None, timing: LeaseTiming = QUICK) -> Candidate:
        transport = connect(kubeconfig or str(control_plane.kubeconfig))
        candidates.append(Candidate(transport, identity, lease, timing))
        return candidates[-1]

    yield make
    for candidate in candidates:
        candidate.stop.set()
    for candidate in candidates:
        candidate.thread.join(PATIENCE)
        assert not candidate.thread.is_alive()
    control_plane.kubectl("delete", "lease", "-n", NAMESPACE, lease, "--ignore-not-found")


@pytest.fixture
def wire(control_plane: ControlPlane, tmp_path: Path) -> Iterator[tuple[Wire, str]]:
    """A breakable connection to the API server, and a kubeconfig that leads through it."""
    with wire_to(Path(control_plane.kubeconfig), tmp_path) as found:
        yield found


def field(control_plane: ControlPlane, lease: str, path: str) -> str:
    """Return a field of the Lease's spec; "" if it is absent."""
    found = control_plane.kubectl("get", "lease", "-n", NAMESPACE, lease, "-o", f"jsonpath={{.spec.{path}}}")
    return found.strip()


def test_one_leads_and_the_other_waits(elect: Elect) -> None:
    first = elect("first")
    assert first.leads.wait(PATIENCE)
    second = elect("second")
    assert not second.leads.wait(1.5 * QUICK.lease)
    assert first.leads.is_set()
    assert first.election.leading
    assert not second.election.leading


def test_the_lease_tells_who_leads(elect: Elect, control_plane: ControlPlane, lease: str) -> None:
    first = elect("first")
    assert first.leads.wait(PATIENCE)
    assert field(control_plane, lease, "holderIdentity") == "first"
    assert field(control_plane, lease, "leaseDurationSeconds") == "6"
    before = field(control_plane, lease, "renewTime")
    wait_until(lambda: field(control_plane, lease, "renewTime") > before, PATIENCE, "the Lease to be renewed")


def test_a_leader_that_stops_hands_over_at_once(elect: Elect, control_plane: ControlPlane, lease: str) -> None:
    """Long before a Lease of that length would expire."""
    first = elect("first", timing=LONG)
    assert first.leads.wait(PATIENCE)
    second = elect("second", timing=LONG)
    first.stop.set()
    assert first.lost.wait(PATIENCE)
    first.thread.join(PATIENCE)
    assert not first.thread.is_alive()
    assert second.leads.wait(PATIENCE)
    assert second.terms[0][0] >= first.terms[0][1]
    assert field(control_plane, lease, "leaseTransitions") == "1"


def test_a_leader_that_resigns_is_elected_again(elect: Elect) -> None:
    first = elect("first")
    assert first.leads.wait(PATIENCE)
    first.resign.set()
    assert first.lost.wait(PATIENCE)
    first.resign.clear()
    assert first.leads.wait(PATIENCE)


def test_the_lease_of_a_leader_that_vanished_is_taken_only_after_it_expired(
    elect: Elect, wire: tuple[Wire, str]
) -> None:
    cable, through = wire
    first = elect("first", through)
    assert first.leads.wait(PATIENCE)
    second = elect("second")
    time.sleep(3 * QUICK.retry)
    cable.cut()
    assert second.leads.wait(PATIENCE)
    assert first.terms[0][1] < second.terms[0][0]


@pytest.mark.parametrize("outage", ["cut", "hang"])
def test_a_leader_without_its_api_server_stops_before_another_may_start(
    elect: Elect, wire: tuple[Wire, str], outage: str
) -> None:
    cable, through = wire
    first = elect("first", through)
    assert first.leads.wait(PATIENCE)
    second = elect("second")
    time.sleep(3 * QUICK.retry)
    getattr(cable, outage)()
    assert second.leads.wait(PATIENCE)
    assert first.terms[0][1] < second.terms[0][0]
    cable.mend()
    second.stop.set()
    assert first.leads.wait(PATIENCE)


def test_a_short_outage_costs_nobody_the_lead(elect: Elect, wire: tuple[Wire, str]) -> None:
    cable, through = wire
    first = elect("first", through)
    assert first.leads.wait(PATIENCE)
    cable.cut()
    time.sleep(QUICK.renew_deadline / 2)
    cable.mend()
    assert not first.lost.wait(QUICK.lease)


def test_a_lease_that_another_held_in_between_is_not_renewed(control_plane: ControlPlane, lease: str) -> None:
    """The other candidate has released it again: the name in it could be this candidate's, the term could not."""
    transport = connect(str(control_plane.kubeconfig))
    collection = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{lease}"

    def lead(term: Term) -> None:
        spec = {"holderIdentity": "", "leaseTransitions": 7}
        transport.request("PATCH", collection, body={"spec": spec}, content_type=MERGE_PATCH)
        assert term.lost.wait(PATIENCE)
        with pytest.raises(LeadershipLostError):
            term.allowance()
        stop.set()

    stop = threading.Event()
    Election(transport, identity="only", namespace=NAMESPACE, name=lease, timing=QUICK).run(lead, stop)
    assert field(control_plane, lease, "leaseTransitions") == "7"
    control_plane.kubectl("delete", "lease", "-n", NAMESPACE, lease)


def test_a_candidate_waits_for_an_api_server_that_is_not_there_yet(elect: Elect, wire: tuple[Wire, str]) -> None:
    cable, through = wire
    cable.cut()
    first = elect("first", through)
    assert not first.leads.wait(1)
    cable.mend()
    assert first.leads.wait(PATIENCE)


def test_what_the_leader_raises_is_raised_after_the_lease_was_given_up(control_plane: ControlPlane, lease: str) -> None:
    transport = connect(str(control_plane.kubeconfig))

    def fail(_term: Term) -> None:
        raise RuntimeError("the work failed")

    election = Election(transport, identity="only", namespace=NAMESPACE, name=lease, timing=QUICK)
    with pytest.raises(RuntimeError, match="the work failed"):
        election.run(fail, threading.Event())
    assert field(control_plane, lease, "holderIdentity") == ""
