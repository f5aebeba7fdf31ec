"""`phalanx doctor`: whether this cluster is fit for gangs, and whether Phalanx itself is well."""

import base64
import binascii
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import click
from cryptography import x509
from kubernetes.client.exceptions import ApiException, NotFoundException

from certs.cluster_edge import CONFIGURATIONS, DEFAULT_PLACE
from cli.live import live_picture
from cluster.transport import Transport, message_of
from kube.keys import CONTROLLER_LEASE, SYSTEM_NAMESPACE
from kube.versions import shortcoming
from planning.checkup import Finding, Severity, check_up

EXPIRY_WARNING = timedelta(days=14)
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_SYMBOLS = {Severity.OK: ("ok", "green"), Severity.WARNING: ("warning", "yellow"), Severity.ERROR: ("error", "red")}


@click.command()
@click.option("--kubeconfig", type=click.Path(exists=True), help="Default: in-cluster, else the usual kubeconfig.")
def doctor(kubeconfig: str | None) -> None:
    """Check the cluster: topology labels, topologies, requests, webhooks, certificates, the controller.

    Exit status 1 where something is an error.
    """
    transport, live = live_picture(kubeconfig)
    findings = [*_installation(transport), *check_up(live.snapshot, live.sources)]
    for each in findings:
        word, colour = _SYMBOLS[each.severity]
        click.echo(f"{click.style(word.ljust(8), fg=colour)} {each.subject}: {each.text}")
        if each.remedy:
            click.echo(f"{'':8}   {each.remedy}")
    if any(each.severity is Severity.ERROR for each in findings):
        raise SystemExit(1)


def _installation(transport: Transport) -> Iterator[Finding]:
    """What of Phalanx itself can be seen from outside."""
    for kind, name in CONFIGURATIONS:
        yield from _configuration(kind, name, _read(transport, f"{_ADMISSION}/{kind.lower()}s/{name}"))
    yield from _secret(_read(transport, f"{DEFAULT_PLACE.secrets_path}/{DEFAULT_PLACE.secret}"))
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases"
    yield _leader(_read(transport, f"{leases}/{CONTROLLER_LEASE}"))
    yield _version(_read(transport, "/version"))


def _read(transport: Transport, path: str) -> Mapping[str, Any] | str | None:
    """The object, None where there is none, the API server's words where it is not for us."""
    try:
        found: Mapping[str, Any] = transport.request("GET", path)
    except NotFoundException:
        return None
    except ApiException as error:
        return message_of(error)
    return found


def _configuration(kind: str, name: str, found: Mapping[str, Any] | str | None) -> Iterator[Finding]:
    subject = f"{kind} {name}"
    if isinstance(found, str):
        yield Finding(Severity.WARNING, subject, f"could not be read: {found}")
        return
    if found is None:
        remedy = "kubectl apply --server-side -k manifests/default"
        yield Finding(Severity.ERROR, subject, "is not installed: gangs are not seen at admission", remedy)
        return
    for webhook in found.get("webhooks") or ():
        problem = _trust(webhook.get("clientConfig") or {})
        if problem:
            remedy = "the leading controller writes it: is one running?"
            yield Finding(Severity.ERROR, f"{subject}, {webhook['name']}", problem, remedy)
        elif not webhook.get("matchConditions") and not _scoped(webhook):
            text = "asks about every object of its rules, not only those that name a gang"
            yield Finding(Severity.WARNING, f"{subject}, {webhook['name']}", text, "apply the manifests again")
    yield Finding(Severity.OK, subject, f"{len(found.get('webhooks') or ())} webhooks")


def _scoped(webhook: Mapping[str, Any]) -> bool:
    """Rules over objects that are ours, or a namespace's own wish, need no match conditions."""
    resources = {each for rule in webhook.get("rules") or () for each in rule.get("resources") or ()}
    return not resources & {"pods", "jobs", "*"} or bool((webhook.get("namespaceSelector") or {}).get("matchLabels"))


def _trust(client: Mapping[str, Any]) -> str:
    """What is wrong with a webhook's caBundle; "" if nothing is."""
    bundle = client.get("caBundle")
    if not bundle:
        return "has no caBundle: every call to it fails"
    try:
        certificates = x509.load_pem_x509_certificates(base64.b64decode(bundle))
    except (ValueError, binascii.Error):
        return "has a caBundle that is no certificate"
    last = max(each.not_valid_after_utc for each in certificates)
    return "" if last > datetime.now(UTC) else f"has a caBundle that ended on {last:%Y-%m-%d}"


def _secret(found: Mapping[str, Any] | str | None) -> Iterator[Finding]:
    subject = f"Secret {DEFAULT_PLACE.namespace}/{DEFAULT_PLACE.secret}"
    if found is None or isinstance(found, str):
        text = "is not there (yet): the leader makes it" if found is None else f"could not be read: {found}"
        yield Finding(Severity.WARNING, subject, text)
        return
    try:
        leaf = x509.load_pem_x509_certificate(base64.b64decode((found.get("data") or {})["tls.crt"]))
    except (KeyError, ValueError, binascii.Error):
        yield Finding(Severity.ERROR, subject, "holds no certificate", "delete it: the leader makes a new one")
        return
    left = leaf.not_valid_after_utc - datetime.now(UTC)
    severity = Severity.ERROR if left < timedelta() else Severity.WARNING if left < EXPIRY_WARNING else Severity.OK
    yield Finding(severity, subject, f"the serving certificate is valid until {leaf.not_valid_after_utc:%Y-%m-%d}")


def _leader(found: Mapping[str, Any] | str | None) -> Finding:
    subject = f"Lease {SYSTEM_NAMESPACE}/{CONTROLLER_LEASE}"
    if isinstance(found, str):
        return Finding(Severity.WARNING, subject, f"could not be read: {found}")
    spec = (found or {}).get("spec") or {}
    holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
    if not holder or not renewed:
        return Finding(Severity.ERROR, subject, "no controller leads: gangs wait, gated", "is the controller running?")
    silent = datetime.now(UTC) - datetime.fromisoformat(renewed)
    if silent.total_seconds() > float(spec.get("leaseDurationSeconds") or 15) * 2:
        return Finding(Severity.ERROR, subject, f"{holder} has been silent for {silent.seconds} s", "is it running?")
    return Finding(Severity.OK, subject, f"{holder} leads")


def _version(found: Mapping[str, Any] | str | None) -> Finding:
    if not isinstance(found, Mapping):
        return Finding(Severity.WARNING, "Kubernetes", f"its version could not be read: {found}")
    version = str(found["gitVersion"])
    lacking = shortcoming(version)
    subject = f"Kubernetes {version}"
    if lacking:
        return Finding(Severity.WARNING, subject, lacking, "see docs/reference/kubernetes-versions.md")
    return Finding(Severity.OK, subject, "its scheduler holds the room of gated pods")
