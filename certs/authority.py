"""Issues and verifies certificates: a certificate authority (CA) and the serving certificates that it signs.

The functions have no side effects. Certificates and keys are PEM. All keys are P-256. The name of an authority contains
a part of its key's digest, so that two authorities in one bundle have different names. With equal names a client would
report a misleading error if one of the two authorities is missing in the bundle.
"""

import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import PolicyBuilder, Store

AUTHORITY_LIFETIME = timedelta(days=365)
LEAF_LIFETIME = timedelta(days=90)
CLOCK_SKEW = timedelta(minutes=5)
"""The validity of a certificate starts this long before it is issued, because clocks differ."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, both in PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class ServerNames:
    """The DNS names and IP addresses (as text) for which a serving certificate is valid."""

    dns: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


def service_names(service: str, namespace: str) -> ServerNames:
    """Return the DNS names by which a Service is reached. The API server verifies the first one."""
    host = f"{service}.{namespace}.svc"
    return ServerNames(dns=(host, f"{service}.{namespace}", f"{host}.cluster.local"))


def new_authority(name: str, now: datetime, lifetime: timedelta = AUTHORITY_LIFETIME) -> Pair:
    """Return a new self-signed authority, which may sign serving certificates but no further authorities.

    Its common name consists of `name` and a part of its key's digest.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name} {identifier.digest.hex()[:8]}")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(pem(certificate), _key_pem(key))


def issue(authority: Pair, names: ServerNames, now: datetime, lifetime: timedelta = LEAF_LIFETIME) -> Pair:
    """Return a new serving certificate for these names, signed by the authority. It never outlives the authority."""
    signer = x509.load_pem_x509_certificate(authority.certificate)
    signing_key = serialization.load_pem_private_key(authority.key, password=None)
    if not isinstance(signing_key, ec.EllipticCurvePrivateKey):
        raise TypeError("the authority's key is not an elliptic curve key")
    key = ec.generate_private_key(ec.SECP256R1())
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    signer_identifier = signer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(signer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(min(now + lifetime, signer.not_valid_after_utc))
        .add_extension(_alternative_names(names), critical=True)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(identifier, critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(signer_identifier), critical=False
        )
        .sign(signing_key, hashes.SHA256())
    )
    return Pair(pem(certificate), _key_pem(key))


def verify(leaf: bytes, bundle: bytes, names: ServerNames, now: datetime) -> None:
    """Check a serving certificate as a client would that trusts the authorities of `bundle`, for each of the names.

    :raises cryptography.x509.verification.VerificationError: the client would refuse the certificate.
    :raises ValueError: `leaf` or `bundle` is no valid PEM.
    """
    builder = PolicyBuilder().store(Store(x509.load_pem_x509_certificates(bundle))).time(now)
    certificate = x509.load_pem_x509_certificate(leaf)
    for subject in _general_names(names):
        builder.build_server_verifier(subject).verify(certificate, [])


def pem(certificate: x509.Certificate) -> bytes:
    """Return a certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def _general_names(names: ServerNames) -> list[x509.DNSName | x509.IPAddress]:
    addresses = [x509.IPAddress(ipaddress.ip_address(each)) for each in names.addresses]
    return [*(x509.DNSName(each) for each in names.dns), *addresses]


def _alternative_names(names: ServerNames) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName(_general_names(names))


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
