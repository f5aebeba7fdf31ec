"""Keeps the webhook's certificate in the cluster: in a Secret, and in the caBundle by which API servers trust it.

The leading controller calls this module every few seconds. The webhook's pods mount the Secret.
"""

import base64
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from cryptography import x509
from kubernetes.client.exceptions import ApiException

from certs.authority import Pair, service_names
from certs.files import AUTHORITY, CERTIFICATE, KEY
from certs.rotation import DEFAULT_SCHEDULE, Held, Schedule, can_sign, next_step, union
from cluster.api.transport import APPLY_PATCH, MERGE_PATCH, Transport

AUTHORITY_KEY = "ca.key"
FIELD_MANAGER = "phalanx-certificates"
ADMISSION = "admissionregistration.k8s.io/v1"
CONFIGURATIONS = (
    ("MutatingWebhookConfiguration", "zz-phalanx"),
    ("ValidatingWebhookConfiguration", "phalanx"),
)


@dataclass(frozen=True, slots=True)
class WebhookPlace:
    """The names of the webhook's Service and of the Secret with its certificate."""

    namespace: str = "phalanx-system"
    service: str = "phalanx-webhook"
    secret: str = "phalanx-webhook-certs"  # noqa: S105 -- a name, not a password

    @property
    def secrets_path(self) -> str:
        """The API path of the Secrets in the webhook's namespace."""
        return f"/api/v1/namespaces/{self.namespace}/secrets"


DEFAULT_PLACE = WebhookPlace()


def ensure_serving_certificate(
    transport: Transport,
    place: WebhookPlace = DEFAULT_PLACE,
    schedule: Schedule = DEFAULT_SCHEDULE,
    now: datetime | None = None,
) -> datetime:
    """Take the step of the certificate's rotation that is due, if any, and make the webhook configurations trust it.

    The Secret changes only after the configurations trust both its old and its new content. Webhooks that the API
    server calls by URL, and not by the Service in `place`, are not changed.

    :returns: the end of the serving certificate's validity. Call again long before, best every few seconds.
    :raises ApiException: the API server refused. A 409 means that another client wrote at the same time.
    :raises urllib3.exceptions.HTTPError, OSError: the API server could not be reached.
    """
    now = now or datetime.now(UTC)
    secret = _get(transport, f"{place.secrets_path}/{place.secret}")
    held = _held(secret)
    usable = held is not None and can_sign(held, now)
    trusted = b"" if usable else _trusted(transport, place)
    after = next_step(held, service_names(place.service, place.namespace), now, schedule, trusted)
    _trust(transport, union(after.bundle, held.bundle) if held and usable else after.bundle, place)
    if after is not held:
        _write(transport, secret, after, place)
        _trust(transport, after.bundle, place)
    return x509.load_pem_x509_certificate(after.leaf.certificate).not_valid_after_utc


def ensure_trust(transport: Transport, bundle: bytes, place: WebhookPlace = DEFAULT_PLACE) -> None:
    """Make the webhook configurations trust a CA bundle (PEM) that another program maintains.

    :raises ValueError: the bundle contains no certificate.
    :raises ApiException: the API server refused. A 409 means that another client wrote at the same time.
    :raises urllib3.exceptions.HTTPError, OSError: the API server could not be reached.
    """
    x509.load_pem_x509_certificates(bundle)
    _trust(transport, bundle, place)


def _held(secret: dict[str, Any] | None) -> Held | None:
    """Return the certificates and keys in a Secret, valid or not; None if there is no Secret.

    A missing part is empty.
    """
    if secret is None:
        return None
    data = secret.get("data") or {}
    bundle, authority_key, leaf, key = (
        base64.b64decode(data.get(name) or "") for name in (AUTHORITY, AUTHORITY_KEY, CERTIFICATE, KEY)
    )
    return Held(bundle, authority_key, Pair(leaf, key))


def _write(transport: Transport, secret: dict[str, Any] | None, held: Held, place: WebhookPlace) -> None:
    """Write the certificates and keys to the Secret, which is created if it does not exist.

    The API server refuses the write if the Secret has changed since it was read.

    :param secret: the Secret as it was read; None if there is none.
    """
    parts = {
        AUTHORITY: held.bundle,
        AUTHORITY_KEY: held.authority_key,
        CERTIFICATE: held.leaf.certificate,
        KEY: held.leaf.key,
    }
    data = {name: base64.b64encode(value).decode() for name, value in parts.items()}
    if secret is None:
        metadata = {"name": place.secret, "namespace": place.namespace}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}
        transport.request("POST", place.secrets_path, body=body)
        return
    body = {"metadata": {"resourceVersion": secret["metadata"]["resourceVersion"]}, "data": data}
    transport.request("PATCH", f"{place.secrets_path}/{place.secret}", body=body, content_type=MERGE_PATCH)


def _trust(transport: Transport, bundle: bytes, place: WebhookPlace) -> None:
    """Write the CA bundle to each webhook in the configurations that is called by the Service in `place`, unless all
    have the bundle already.
    """
    wanted = base64.b64encode(bundle).decode()
    for kind, name in CONFIGURATIONS:
        path = f"/apis/{ADMISSION}/{kind.lower()}s/{name}"
        configuration = _get(transport, path)
        stale = [each for each in _entries(configuration, place) if each["clientConfig"].get("caBundle") != wanted]
        if stale:
            # All entries are applied: server-side apply would remove the bundle from one that is left out.
            entries = [
                {"name": each["name"], "clientConfig": {"caBundle": wanted}} for each in _entries(configuration, place)
            ]
            version = configuration["metadata"]["resourceVersion"] if configuration else ""
            metadata = {"name": name, "resourceVersion": version}  # the version that was read: a 409 if it has changed
            body = {"apiVersion": ADMISSION, "kind": kind, "metadata": metadata, "webhooks": entries}
            query = {"fieldManager": FIELD_MANAGER, "force": "true"}
            transport.request("PATCH", path, query=query, body=body, content_type=APPLY_PATCH)


def _trusted(transport: Transport, place: WebhookPlace) -> bytes:
    """Return one bundle (PEM) of all CA certificates that the webhook configurations trust now.

    Bundles that cannot be read are ignored.
    """
    found: dict[bytes, None] = {}
    for kind, name in CONFIGURATIONS:
        for entry in _entries(_get(transport, f"/apis/{ADMISSION}/{kind.lower()}s/{name}"), place):
            with suppress(ValueError):
                found[union(base64.b64decode(entry["clientConfig"].get("caBundle") or ""))] = None
    return union(*found)


def _entries(configuration: dict[str, Any] | None, place: WebhookPlace) -> Iterator[dict[str, Any]]:
    for entry in (configuration or {}).get("webhooks") or ():
        service = entry["clientConfig"].get("service") or {}
        if (service.get("name"), service.get("namespace")) == (place.service, place.namespace):
            yield entry


def _get(transport: Transport, path: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = transport.request("GET", path)
    except ApiException as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise
    return found
