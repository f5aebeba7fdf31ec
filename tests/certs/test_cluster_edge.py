"""The Secret and the caBundle on a real API server."""

import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from certs.authority import AUTHORITY_LIFETIME, service_names, verify
from certs.cluster_edge import CONFIGURATIONS, DEFAULT_PLACE, ensure_serving_certificate
from certs.rotation import DEFAULT_SCHEDULE
from cli.installation.installed_objects import webhook_configurations
from cluster.api.connecting import connect
from cluster.api.transport import Transport
from controlplane.control_plane import ControlPlane

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("applied")]

DEFAULT, WEBHOOK = (str(Path(__file__).parents[2] / "manifests" / each) for each in ("default", "webhook"))
NAMES = service_names("phalanx-webhook", "phalanx-system")
INTRODUCTION, RETIREMENT = DEFAULT_SCHEDULE.introduction, DEFAULT_SCHEDULE.retirement
NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture(scope="module")
def applied(control_plane: ControlPlane) -> None:
    """Everything is applied as a user does: `kubectl apply -k manifests/default`."""
    control_plane.kubectl("apply", "-k", DEFAULT)


@pytest.fixture
def plane(cluster: ControlPlane) -> Iterator[ControlPlane]:
    """A clean cluster with the webhook configurations applied. They and the certificate are deleted afterwards."""
    cluster.kubectl("apply", "-k", WEBHOOK)
    yield cluster
    for kind, name in CONFIGURATIONS:
        cluster.kubectl("delete", kind, name, "--ignore-not-found")
    cluster.kubectl("delete", "secret", "-n", DEFAULT_PLACE.namespace, DEFAULT_PLACE.secret, "--ignore-not-found")
    cluster.kubectl("delete", "deployment", "-n", DEFAULT_PLACE.namespace, "--all")


@pytest.fixture
def transport(plane: ControlPlane) -> Transport:
    """A connection to the API server with the controller's service account."""
    return connect(str(plane.kubeconfig_for("phalanx-system", "phalanx-controller")))


def secret(plane: ControlPlane) -> dict[str, bytes]:
    """Return the decoded data of the certificate's Secret."""
    path = f"{DEFAULT_PLACE.secrets_path}/{DEFAULT_PLACE.secret}"
    found: dict[str, Any] = plane.request("GET", path)
    return {name: base64.b64decode(value) for name, value in found["data"].items()}


def bundles(plane: ControlPlane) -> set[bytes]:
    """Return the caBundles of all webhooks of Phalanx; a missing one is empty."""
    found = set()
    for kind, name in CONFIGURATIONS:
        configuration = plane.request("GET", f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s/{name}")
        found |= {base64.b64decode(each["clientConfig"].get("caBundle", "")) for each in configuration["webhooks"]}
    return found


def test_the_manifests_are_accepted_twice_and_then_differ_in_nothing(plane: ControlPlane) -> None:
    plane.kubectl("apply", "-k", DEFAULT)
    assert plane.kubectl("diff", "-k", DEFAULT) == ""


def test_a_pair_is_made_and_trusted_everywhere(plane: ControlPlane, transport: Transport) -> None:
    assert bundles(plane) == {b""}
    end = ensure_serving_certificate(transport, now=NOW)
    held = secret(plane)
    assert end > NOW
    assert bundles(plane) == {held["ca.crt"]}
    verify(held["tls.crt"], held["ca.crt"], NAMES, NOW)


def test_nothing_is_written_while_nothing_is_due(plane: ControlPlane, transport: Transport) -> None:
    ensure_serving_certificate(transport, now=NOW)
    before = secret(plane)
    ensure_serving_certificate(transport, now=NOW + timedelta(days=1))
    assert secret(plane) == before


def test_applying_the_manifests_again_does_not_take_the_bundle_away(plane: ControlPlane, transport: Transport) -> None:
    ensure_serving_certificate(transport, now=NOW)
    plane.kubectl("apply", "-k", DEFAULT)
    assert bundles(plane) == {secret(plane)["ca.crt"]}


def test_a_bundle_that_was_taken_away_comes_back(plane: ControlPlane, transport: Transport) -> None:
    ensure_serving_certificate(transport, now=NOW)
    kind, name = CONFIGURATIONS[0]
    plane.kubectl("delete", kind, name)
    plane.kubectl("apply", "-k", DEFAULT)
    assert b"" in bundles(plane)
    ensure_serving_certificate(transport, now=NOW)
    assert bundles(plane) == {secret(plane)["ca.crt"]}


@pytest.mark.parametrize(
    "patch",
    ['{"data": {"tls.key": "AAAA"}}', '{"data": {"ca.crt": null}}', '{"data": {"ca.crt": "AAAA"}}'],
    ids=["a spoilt key", "no authority", "a spoilt authority"],
)
def test_a_spoilt_secret_is_made_anew(plane: ControlPlane, transport: Transport, patch: str) -> None:
    ensure_serving_certificate(transport, now=NOW)
    plane.kubectl("patch", "secret", "-n", "phalanx-system", DEFAULT_PLACE.secret, "--type=merge", "-p", patch)
    ensure_serving_certificate(transport, now=NOW)
    held = secret(plane)
    verify(held["tls.crt"], held["ca.crt"], NAMES, NOW)
    assert bundles(plane) == {held["ca.crt"]}


def test_a_new_authority_is_trusted_before_it_is_used_and_the_old_one_until_nobody_shows_it(
    plane: ControlPlane, transport: Transport
) -> None:
    ensure_serving_certificate(transport, now=NOW)
    for days in range(25, 226, 25):
        ensure_serving_certificate(transport, now=NOW + timedelta(days=days))
    due = NOW + AUTHORITY_LIFETIME * 2 / 3 + timedelta(days=1)
    old = secret(plane)
    steps = (due, due + INTRODUCTION, due + INTRODUCTION + RETIREMENT)
    counts, leaves = [], []
    for now in steps:
        shown = secret(plane)["tls.crt"]
        ensure_serving_certificate(transport, now=now)
        held = secret(plane)
        assert bundles(plane) == {held["ca.crt"]}
        verify(shown, held["ca.crt"], NAMES, now)
        counts.append(held["ca.crt"].count(b"BEGIN"))
        leaves.append(held["tls.crt"])
    assert counts == [2, 2, 1]
    assert [leaf == old["tls.crt"] for leaf in leaves] == [True, False, False]


def test_entries_that_call_a_url_are_left_alone(plane: ControlPlane, transport: Transport) -> None:
    """After a pause of 400 days all certificates are recreated. Webhooks that call a URL keep their caBundle."""
    ensure_serving_certificate(transport, now=NOW)
    first = secret(plane)["ca.crt"]
    for kind, name in CONFIGURATIONS:
        plane.kubectl("delete", kind, name)
    plane.apply(webhook_configurations("https://127.0.0.1:1", first))
    ensure_serving_certificate(transport, now=NOW + timedelta(days=400))
    assert secret(plane)["ca.crt"] != first
    assert bundles(plane) == {first}
