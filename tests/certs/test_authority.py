"""The certificates that the authority signs, verified as a client verifies them."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509.verification import VerificationError

from certs.authority import LEAF_LIFETIME, ServerNames, issue, new_authority, service_names, verify

NOW = datetime(2027, 3, 1, 12, tzinfo=UTC)
NAMES = service_names("phalanx-webhook", "phalanx-system")


def test_the_service_name_that_the_api_server_verifies_comes_first() -> None:
    assert NAMES.dns[0] == "phalanx-webhook.phalanx-system.svc"


@pytest.mark.parametrize(
    "names", [NAMES, ServerNames(dns=("localhost",), addresses=("127.0.0.1", "::1"))], ids=["service", "addresses"]
)
def test_a_leaf_verifies_for_each_of_its_names(names: ServerNames) -> None:
    authority = new_authority("test", NOW)
    leaf = issue(authority, names, NOW)
    verify(leaf.certificate, authority.certificate, names, NOW)


@pytest.mark.parametrize(
    ("names", "when"),
    [
        (ServerNames(dns=("other.phalanx-system.svc",)), NOW),
        (NAMES, NOW + LEAF_LIFETIME + timedelta(seconds=1)),
        (NAMES, NOW - timedelta(minutes=6)),
    ],
    ids=["another name", "expired", "not yet valid"],
)
def test_a_leaf_is_refused_for(names: ServerNames, when: datetime) -> None:
    authority = new_authority("test", NOW)
    leaf = issue(authority, NAMES, NOW)
    with pytest.raises(VerificationError):
        verify(leaf.certificate, authority.certificate, names, when)


def test_a_leaf_is_refused_by_whoever_trusts_another_authority_only() -> None:
    leaf = issue(new_authority("test", NOW), NAMES, NOW)
    with pytest.raises(VerificationError):
        verify(leaf.certificate, new_authority("test", NOW).certificate, NAMES, NOW)


def test_a_leaf_never_outlives_its_authority() -> None:
    authority = new_authority("test", NOW, timedelta(days=10))
    leaf = x509.load_pem_x509_certificate(issue(authority, NAMES, NOW).certificate)
    assert leaf.not_valid_after_utc == NOW + timedelta(days=10)


def test_two_authorities_of_one_purpose_have_different_names() -> None:
    subjects = {x509.load_pem_x509_certificate(new_authority("test", NOW).certificate).subject for _ in range(2)}
    assert len(subjects) == 2
