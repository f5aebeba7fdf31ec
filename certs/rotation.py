"""The rotation of the webhook's certificates: which step is due, given the stored certificates and the time.

An authority is replaced in three steps. First clients also trust the new authority. Then it signs a new serving
certificate. At last the old authority is removed. `next_step` is a pure function that takes one step at a time. The
time of each step follows from the certificates themselves, so after a crash the rotation continues from the stored
ones.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from certs.authority import AUTHORITY_LIFETIME, CLOCK_SKEW, LEAF_LIFETIME, Pair, ServerNames, issue, new_authority, pem

AUTHORITY_NAME = "phalanx webhook"
MOST_TRUSTED = 4
"""The most authorities in one bundle: the new one and the ones that it replaces."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The lifetimes of certificates, and the durations of the steps of a rotation.

    `renewal`: the share of a certificate's lifetime after which it is replaced. `introduction`: how long a new
    authority is trusted before it signs a certificate. `retirement`: how long the old authority stays trusted after
    that, because a changed Secret takes minutes to reach the files of every replica.

    :raises ValueError: the times contradict each other. The message names them.
    """

    authority_lifetime: timedelta = AUTHORITY_LIFETIME
    leaf_lifetime: timedelta = LEAF_LIFETIME
    introduction: timedelta = timedelta(minutes=2)
    retirement: timedelta = timedelta(hours=1)
    renewal: float = 2 / 3

    def __post_init__(self) -> None:
        """Refuse times with which a served certificate would at some time not be trusted.

        :raises ValueError: the times contradict each other.
        """
        if not 0 <= self.renewal < 1:
            raise ValueError(f"renewal ({self.renewal:g}) must be a share of a life: from 0 to less than 1")
        if min(self.introduction, self.retirement) < timedelta():
            raise ValueError("introduction and retirement must not be negative")
        if self.leaf_lifetime > self.authority_lifetime:
            raise ValueError(
                f"certificates ({self.leaf_lifetime}) must not live longer than their authority "
                f"({self.authority_lifetime})"
            )
        spare = self.leaf_lifetime * (1 - self.renewal)
        if self.introduction + self.retirement >= spare:
            raise ValueError(
                f"introduction ({self.introduction}) and retirement ({self.retirement}) must be over within what is "
                f"left of a certificate's life when it is replaced ({spare})"
            )


DEFAULT_SCHEDULE = Schedule()


@dataclass(frozen=True, slots=True)
class Held:
    """The certificates and keys that the Secret stores, all in PEM.

    `bundle`: the trusted authorities, newest first. `authority_key`: the key of the newest authority. `leaf`: the
    serving certificate and its key.
    """

    bundle: bytes
    authority_key: bytes
    leaf: Pair


def next_step(
    held: Held | None, names: ServerNames, now: datetime, schedule: Schedule = DEFAULT_SCHEDULE, trusted: bytes = b""
) -> Held:
    """Return the certificates to store next; `held` itself if no step of the rotation is due.

    Parts that cannot be read or do not match are replaced: the serving certificate alone if the authority is valid,
    else both.

    :param held: the stored certificates; None if there are none.
    :param names: the names for which the serving certificate must be valid.
    :param trusted: the CA bundle that clients trust now (PEM, valid or not). It is read only if a new authority must
        replace an unusable one. The new authority is added to it, because replicas serve the old certificate until they
        have read the new one.
    """
    if held is None or not can_sign(held, now):
        return _fresh(names, now, schedule, trusted)
    if not usable(held, now):
        return _switch(held, names, now, schedule)
    return _step_due(held, names, now, schedule)


def _step_due(held: Held, names: ServerNames, now: datetime, schedule: Schedule) -> Held:
    authorities = x509.load_pem_x509_certificates(held.bundle)
    newest = authorities[0]
    leaf = x509.load_pem_x509_certificate(held.leaf.certificate)
    if not _signed(newest, leaf):
        return _switch(held, names, now, schedule) if now >= _made(newest) + schedule.introduction else held
    if len(authorities) > 1 and now >= _made(leaf) + schedule.retirement:
        return Held(pem(newest), held.authority_key, held.leaf)
    if len(authorities) == 1 and _due(newest, now, schedule):
        return _introduce(held, now, schedule)
    if _due(leaf, now, schedule) or _names(leaf) != _wanted(names):
        return _switch(held, names, now, schedule)
    return held


def can_sign(held: Held, now: datetime) -> bool:
    """Return whether the newest authority can sign certificates: it is valid and not expired, and its key is stored."""
    try:
        newest = x509.load_pem_x509_certificates(held.bundle)[0]
        key = serialization.load_pem_private_key(held.authority_key, None)
        constraints = newest.extensions.get_extension_for_class(x509.BasicConstraints).value
        newest.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    except (ValueError, TypeError, x509.ExtensionNotFound):
        return False
    fits = isinstance(key, ec.EllipticCurvePrivateKey) and key.public_key() == newest.public_key()
    return fits and constraints.ca and _alive(newest, now)


def usable(held: Held, now: datetime) -> bool:
    """Return whether the serving certificate can be used: it and its key are valid, and a trusted authority signed it.

    The result is also False if the newest authority cannot sign (`can_sign`).
    """
    if not can_sign(held, now):
        return False
    try:
        leaf = x509.load_pem_x509_certificate(held.leaf.certificate)
        key = serialization.load_pem_private_key(held.leaf.key, None)
    except (ValueError, TypeError):
        return False
    authorities = [each for each in x509.load_pem_x509_certificates(held.bundle) if _alive(each, now)]
    fits = key.public_key() == leaf.public_key()
    return fits and _alive(leaf, now) and any(_signed(each, leaf) for each in authorities)


def union(*bundles: bytes) -> bytes:
    """Return one bundle (PEM) with all certificates of these bundles, each once, in order."""
    found = {pem(each): None for bundle in bundles for each in x509.load_pem_x509_certificates(bundle)}
    return b"".join(found)


def _fresh(names: ServerNames, now: datetime, schedule: Schedule, trusted: bytes) -> Held:
    authority = new_authority(AUTHORITY_NAME, now, schedule.authority_lifetime)
    bundle = b"".join((authority.certificate, *_ours(trusted, now)))
    return Held(bundle, authority.key, issue(authority, names, now, schedule.leaf_lifetime))


def _ours(trusted: bytes, now: datetime) -> list[bytes]:
    """Return the first authorities of a bundle that Phalanx issued and that have not expired, each in PEM.

    At most `MOST_TRUSTED` - 1 are returned; none if the bundle cannot be read.
    """
    try:
        authorities = x509.load_pem_x509_certificates(trusted)
    except ValueError:
        return []
    ours = [each for each in authorities if _alive(each, now) and _common_name(each).startswith(AUTHORITY_NAME)]
    return list(dict.fromkeys(map(pem, ours)))[: MOST_TRUSTED - 1]


def _introduce(held: Held, now: datetime, schedule: Schedule) -> Held:
    authority = new_authority(AUTHORITY_NAME, now, schedule.authority_lifetime)
    return Held(authority.certificate + held.bundle, authority.key, held.leaf)


def _switch(held: Held, names: ServerNames, now: datetime, schedule: Schedule) -> Held:
    newest = pem(x509.load_pem_x509_certificates(held.bundle)[0])
    leaf = issue(Pair(newest, held.authority_key), names, now, schedule.leaf_lifetime)
    return Held(held.bundle, held.authority_key, leaf)


def _alive(certificate: x509.Certificate, now: datetime) -> bool:
    return now < certificate.not_valid_after_utc


def _common_name(certificate: x509.Certificate) -> str:
    found = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""


def _signed(authority: x509.Certificate, leaf: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _made(certificate: x509.Certificate) -> datetime:
    return certificate.not_valid_before_utc + CLOCK_SKEW


def _due(certificate: x509.Certificate, now: datetime, schedule: Schedule) -> bool:
    """Return whether the certificate must be replaced, because the share `renewal` of its lifetime is over."""
    start = _made(certificate)
    return now >= start + (certificate.not_valid_after_utc - start) * schedule.renewal


def _names(leaf: x509.Certificate) -> set[str]:
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))}


def _wanted(names: ServerNames) -> set[str]:
    return {*names.dns, *names.addresses}
