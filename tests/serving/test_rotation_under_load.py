"""Many rotations of authority and certificate while members are created.

trust  ──► a second authority in every caBundle       (held until API servers have learnt of it)
switch ──► the Secret holds a leaf of the second one  (held until the replica shows it)
retire ──► the first authority is forgotten
"""

import contextlib
import time
from datetime import timedelta
from functools import partial

import pytest
from cryptography import x509
from learning import Learning
from replica import PATIENCE, Load, Replica, as_controller, secret

from certs.cluster_edge import ensure_serving_certificate
from certs.rotation import Schedule
from controlplane.control_plane import ControlPlane, wait_until

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1800), pytest.mark.long]


def shows(replica: Replica, certificate: bytes) -> bool:
    return replica.shown() == certificate


HASTY = Schedule(introduction=timedelta(), retirement=timedelta(), renewal=0.0)
"""Something is always due: one step at each look."""


@pytest.mark.parametrize("rotations", [5, pytest.param(20, marks=pytest.mark.long)])
def test_rotations_cost_no_admission(
    plane: ControlPlane, replica: Replica, capsys: pytest.CaptureFixture[str], rotations: int
) -> None:
    transport = as_controller(plane)
    started = time.monotonic()
    authorities, leaves = {newest_authority(plane)}, {replica.shown()}
    with contextlib.closing(Learning(plane, PATIENCE)) as learning, Load(plane) as load:
        for _ in range(rotations):
            ensure_serving_certificate(transport, schedule=HASTY)
            learning.await_everything()
            ensure_serving_certificate(transport, schedule=HASTY)
            held = secret(plane)["tls.crt"]
            wait_until(partial(shows, replica, held), PATIENCE, "the replica to show the new leaf")
            load.await_more(5)
            ensure_serving_certificate(transport, schedule=HASTY)
            load.await_more(5)
            authorities.add(newest_authority(plane))
            leaves.add(held)
    seconds = time.monotonic() - started
    with capsys.disabled():
        rate = load.answered / seconds
        print(f"\n{rotations} rotations in {seconds:.0f} s: {load.answered} admissions, {rate:.0f}/s, 0 failed")  # noqa: T201
    assert load.failures == []
    assert (len(authorities), len(leaves)) == (rotations + 1, rotations + 1)


def newest_authority(plane: ControlPlane) -> bytes:
    """Return the authority that signs, if it is the only trusted one."""
    (only,) = x509.load_pem_x509_certificates(secret(plane)["ca.crt"])
    return only.fingerprint(only.signature_hash_algorithm or pytest.fail("unsigned"))
