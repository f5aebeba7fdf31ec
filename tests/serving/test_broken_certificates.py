"""Break the Secret or the caBundles while a controller leads: it repairs them within seconds, for every replica.

The replica goes on with the pair that it holds, and its authority stays trusted beside a new one.
"""

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from replica import PATH, PATIENCE, Load, Replica, as_controller, gated, secret

from certs.authority import AUTHORITY_LIFETIME, Pair, issue, new_authority, service_names, verify
from certs.cluster_edge import CONFIGURATIONS, DEFAULT_PLACE, ensure_serving_certificate
from certs.rotation import AUTHORITY_NAME, Held, Schedule, usable
from cluster.api.transport import Transport
from controller.leadership.certificates import INTERVAL_SECONDS, Keeping, keep_certificate
from controlplane.control_plane import ControlPlane, wait_until

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1800), pytest.mark.long]

HEALED_LOOKS = int(10 / INTERVAL_SECONDS)
"""Whole again within ten seconds, by a controller on a machine that is quick enough to look every few."""
NAMES = service_names(DEFAULT_PLACE.service, DEFAULT_PLACE.namespace)
Break = Callable[[ControlPlane], None]


class Looks(Transport):
    """The API server as a controller asks it, and the story of that: each look begins by reading the Secret."""

    def __init__(self, asked: Transport) -> None:
        self._asked = asked
        self.story: list[str] = []

    def request(self, method: str, path: str, **more: Any) -> Any:
        """Ask, and note it."""
        if method != "GET":
            self.story.append("write")
        elif path == PATH:
            self.story.append("look")
        return self._asked.request(method, path, **more)

    def needed(self, since: int) -> int:
        """How many looks it took, of those after the first `since` lines of the story, until nothing was left to do."""
        told = self.story[since:]
        last_write = max((index for index, each in enumerate(told) if each == "write"), default=0)
        return told[:last_write].count("look")


@contextmanager
def kept(transport: Transport, keeping: Keeping) -> Iterator[None]:
    """The leader's thread."""
    over = threading.Event()
    thread = keep_certificate(transport, keeping, over)
    try:
        yield
    finally:
        over.set()
        thread.join(PATIENCE)


@pytest.fixture
def looks(plane: ControlPlane) -> Looks:
    """The API client of the leader, as the controller's service account. It records the requests."""
    return Looks(as_controller(plane))


@pytest.fixture
def leader(looks: Looks, replica: Replica) -> Iterator[Replica]:
    """A leading controller's care for the certificate, and the replica that serves it."""
    with kept(looks, Keeping()):
        yield replica


def whole(plane: ControlPlane) -> bool:
    """Whether what is stored verifies as an API server verifies it, and is what every entry trusts."""
    held = secret(plane)
    parts = [held.get(name, b"") for name in ("ca.crt", "ca.key", "tls.crt", "tls.key")]
    now = datetime.now(UTC)
    if not usable(Held(parts[0], parts[1], Pair(*parts[2:])), now):
        return False
    verify(held["tls.crt"], held["ca.crt"], NAMES, now)
    return bundles(plane) == {held["ca.crt"]}


def bundles(plane: ControlPlane) -> set[bytes]:
    """The caBundles of all entries of both configurations."""
    return {
        base64.b64decode(entry["clientConfig"].get("caBundle") or "")
        for kind, name in CONFIGURATIONS
        for entry in configuration(plane, kind, name)["webhooks"]
    }


def configuration(plane: ControlPlane, kind: str, name: str) -> dict[str, Any]:
    """Return a webhook configuration as stored."""
    found: dict[str, Any] = plane.request("GET", f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s/{name}")
    return found


def put(plane: ControlPlane, **parts: bytes | None) -> None:
    """Change parts of the Secret (`tls_crt` for `tls.crt`); None takes one away."""
    data = {
        name.replace("_", "."): None if value is None else base64.b64encode(value).decode()
        for name, value in parts.items()
    }
    plane.kubectl(
        "patch",
        "secret",
        DEFAULT_PLACE.secret,
        "-n",
        DEFAULT_PLACE.namespace,
        "--type=merge",
        "-p",
        json.dumps({"data": data}),
    )


def missing(plane: ControlPlane) -> None:
    """The Secret is deleted."""
    plane.request("DELETE", PATH)


def expired(plane: ControlPlane) -> None:
    """No controller led for a year: the authority and the leaf have expired."""
    then = datetime.now(UTC) - 2 * AUTHORITY_LIFETIME
    authority = new_authority(AUTHORITY_NAME, then)
    leaf = issue(authority, NAMES, then)
    put(plane, ca_crt=authority.certificate, ca_key=authority.key, tls_crt=leaf.certificate, tls_key=leaf.key)


def expired_leaf(plane: ControlPlane) -> None:
    """No controller led for three months: the leaf has expired, the authority is still valid."""
    held = secret(plane)
    signer = Pair(held["ca.crt"], held["ca.key"])
    leaf = issue(signer, NAMES, datetime.now(UTC) - timedelta(days=2), timedelta(days=1))
    put(plane, tls_crt=leaf.certificate, tls_key=leaf.key)


def corrupt(plane: ControlPlane) -> None:
    """Every part is garbage."""
    put(plane, ca_crt=b"garbage", ca_key=b"garbage", tls_crt=b"garbage", tls_key=b"garbage")


def half_written(plane: ControlPlane) -> None:
    """A certificate that is cut off, and no key."""
    put(plane, tls_crt=secret(plane)["tls.crt"][:200], tls_key=None)


def mismatched(plane: ControlPlane) -> None:
    """The key of another certificate."""
    other = issue(new_authority("other", datetime.now(UTC)), NAMES, datetime.now(UTC))
    put(plane, tls_key=other.key)


def foreign(plane: ControlPlane) -> None:
    """The Secret holds a valid pair of an authority that no webhook configuration trusts."""
    other = issue(new_authority("other", datetime.now(UTC)), NAMES, datetime.now(UTC))
    put(plane, tls_crt=other.certificate, tls_key=other.key)


def applied_again(plane: ControlPlane) -> None:
    """Deleted and applied once more: no entry has a bundle."""
    for kind, name in CONFIGURATIONS:
        found = configuration(plane, kind, name)
        for entry in found["webhooks"]:
            entry["clientConfig"].pop("caBundle", None)
        plane.kubectl("replace", "-f", "-", stdin=json.dumps(found))


def edited(plane: ControlPlane) -> None:
    """A user has put another authority into one entry of each configuration."""
    other = base64.b64encode(new_authority("other", datetime.now(UTC)).certificate).decode()
    for kind, name in CONFIGURATIONS:
        patch = [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": other}]
        plane.kubectl("patch", kind, name, "--type=json", "-p", json.dumps(patch))


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(each, id=each.__name__.replace("_", " "), marks=[] if each is half_written else pytest.mark.long)
        for each in (missing, expired, expired_leaf, corrupt, half_written, mismatched, foreign)
    ],
)
def test_a_secret_heals_within_seconds_and_no_admission_fails(
    plane: ControlPlane, leader: Replica, looks: Looks, spoil: Break
) -> None:
    before = leader.shown()
    with Load(plane, clients=1) as load:
        load.await_more(1)
        spoil(plane)
        since = len(looks.story)
        wait_until(lambda: whole(plane), PATIENCE, "the Secret and the caBundles to be whole")
        assert looks.needed(since) <= HEALED_LOOKS
        held = secret(plane)["tls.crt"]
        wait_until(lambda: leader.shown() == held, PATIENCE, "the replica to show the new certificate")
        load.await_more(5)
    assert held != before
    assert load.failures == []
    leader.await_ready()


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(applied_again, id="applied again"),
        pytest.param(edited, id="edited", marks=pytest.mark.long),
    ],
)
def test_bundles_heal_within_seconds_and_nothing_else_changes(
    plane: ControlPlane, leader: Replica, looks: Looks, spoil: Break
) -> None:
    before = leader.shown()
    spoil(plane)
    since = len(looks.story)
    wait_until(lambda: whole(plane), PATIENCE, "the caBundles to be whole")
    assert looks.needed(since) <= HEALED_LOOKS
    assert secret(plane)["tls.crt"] == before
    wait_until(lambda: gated(plane), PATIENCE, "the API server to trust the webhook")


def test_a_leader_follows_its_own_schedule(plane: ControlPlane, replica: Replica) -> None:
    """A certificate with a lifetime of twelve seconds is replaced within twelve seconds."""
    quick = Schedule(leaf_lifetime=timedelta(seconds=12), introduction=timedelta(), retirement=timedelta(seconds=1))
    put(plane, tls_crt=None)
    with kept(as_controller(plane), Keeping(quick)):
        seen = set[bytes]()

        def renewed() -> bool:
            seen.add(replica.shown())
            return len(seen) == len(("the first", "the mended", "the next"))

        wait_until(renewed, PATIENCE, "the certificate to be renewed")
    put(plane, tls_crt=None)
    ensure_serving_certificate(as_controller(plane))  # a certificate with the full lifetime, for the other tests
    held = secret(plane)["tls.crt"]
    wait_until(lambda: replica.shown() == held, PATIENCE, "the replica to show the one that lasts")


def test_given_certificates_are_left_alone_and_trusted_by_the_given_bundle(
    plane: ControlPlane, replica: Replica, tmp_path: Path
) -> None:
    """cert-manager writes the Secret, and the controller reads the CA bundle from a file.

    The controller restores the given bundle after an edit.
    """
    held = secret(plane)
    bundle = tmp_path / "ca.crt"
    bundle.write_bytes(held["ca.crt"])
    expired_leaf(plane)
    edited(plane)
    with kept(as_controller(plane), Keeping(schedule=None, ca_file=bundle)):
        wait_until(lambda: bundles(plane) == {held["ca.crt"]}, PATIENCE, "the caBundles to be the given one")
        left_alone = secret(plane)["tls.crt"]
        assert left_alone != held["tls.crt"]
    assert replica.shown() == held["tls.crt"], "an expired pair is not taken into use"
    put(plane, tls_crt=held["tls.crt"], tls_key=held["tls.key"])


def test_where_somebody_else_tells_api_servers_whom_to_trust_nothing_is_written(
    plane: ControlPlane, replica: Replica
) -> None:
    before = [configuration(plane, kind, name)["metadata"]["resourceVersion"] for kind, name in CONFIGURATIONS]
    with kept(as_controller(plane), Keeping(schedule=None)):
        time.sleep(1)
    after = [configuration(plane, kind, name)["metadata"]["resourceVersion"] for kind, name in CONFIGURATIONS]
    assert before == after
    replica.await_ready()
