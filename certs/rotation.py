"""When certificates are made anew, and in which order: trust first, then switch, then retire.

`next_step` is a pure function of what is held and of the time. It takes one step at a time, and the instant of each
step can be read from the certificates themselves, so a crash at any point resumes from what was stored.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization

from certs.authority import CLOCK_SKEW, Pair, ServerNames, issue, new_authority, pem

INTRODUCTION = timedelta(minutes=2)
"""How long a new authority is trusted everywhere before anything is signed by it."""
RETIREMENT = timedelta(hours=1)
"""How long the old authority stays trusted after the switch: mounted files reach every replica within minutes."""
AUTHORITY_NAME = "phalanx webhook"


@dataclass(frozen=True, slots=True)
class Held:
    """What is stored, PEM throughout.

    `bundle`: the trusted authorities, newest first; `authority_key`: the newest one's key; `leaf`: what is served.
    """

    bundle: bytes
    authority_key: bytes
    leaf: Pair


def next_step(held: Held | None, names: ServerNames, now: datetime) -> Held:
    """What should be held next; `held` itself where nothing is due.

    Whatever cannot be read or does not fit together (a foreign key, other names) is made anew.
    """
    if held is None or not usable(held, now):
        return _fresh(names, now)
    authorities = x509.load_pem_x509_certificates(held.bundle)
    newest = authorities[0]
    leaf = x509.load_pem_x509_certificate(held.leaf.certificate)
    if not _signed(newest, leaf):
        return _switch(held, names, now) if now >= _made(newest) + INTRODUCTION else held
    if _due(newest, now):
        return _introduce(held, now)
    if _due(leaf, now) or _names(leaf) != _wanted(names):
        return _switch(held, names, now)
    if len(authorities) > 1 and now >= _made(leaf) + RETIREMENT:
        return Held(pem(newest), held.authority_key, held.leaf)
    return held


def _fresh(names: ServerNames, now: datetime) -> Held:
    authority = new_authority(AUTHORITY_NAME, now)
    return Held(authority.certificate, authority.key, issue(authority, names, now))


def _introduce(held: Held, now: datetime) -> Held:
    authority = new_authority(AUTHORITY_NAME, now)
    newest = pem(x509.load_pem_x509_certificates(held.bundle)[0])
    return Held(authority.certificate + newest, authority.key, held.leaf)


def _switch(held: Held, names: ServerNames, now: datetime) -> Held:
    newest = pem(x509.load_pem_x509_certificates(held.bundle)[0])
    return Held(held.bundle, held.authority_key, issue(Pair(newest, held.authority_key), names, now))


def usable(held: Held, now: datetime) -> bool:
    """Whether every part can be read and is alive, each key fits, and an authority of the bundle signed the leaf."""
    try:
        authorities = x509.load_pem_x509_certificates(held.bundle)
        leaf = x509.load_pem_x509_certificate(held.leaf.certificate)
        keys = [serialization.load_pem_private_key(each, None) for each in (held.authority_key, held.leaf.key)]
    except (ValueError, TypeError):
        return False
    newest = authorities[0]
    fits = [key.public_key() for key in keys] == [newest.public_key(), leaf.public_key()]
    alive = now < min(newest.not_valid_after_utc, leaf.not_valid_after_utc)
    return fits and alive and any(_signed(each, leaf) for each in authorities)


def _signed(authority: x509.Certificate, leaf: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _made(certificate: x509.Certificate) -> datetime:
    return certificate.not_valid_before_utc + CLOCK_SKEW


def _due(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether two thirds of its life are over."""
    start = certificate.not_valid_before_utc
    return now >= start + (certificate.not_valid_after_utc - start) * 2 / 3


def _names(leaf: x509.Certificate) -> set[str]:
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))}


def _wanted(names: ServerNames) -> set[str]:
    return {*names.dns, *names.addresses}
