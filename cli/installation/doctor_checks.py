"""The checks of `phalanx doctor` on the installation of Phalanx: webhook configurations, certificate, leader, version.

The functions have no side effects. They take objects as they were read from the cluster, and return findings.
"""

import base64
import binascii
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec
from cryptography import x509
from cryptography.x509.verification import VerificationError

from certs.authority import service_names, verify
from certs.cluster_edge import DEFAULT_PLACE
from cli.installation.installed_objects import OURS, custom_resource_definitions
from cluster.selectors import selects
from gangs.coexistence.ownership import OWN
from gangs.coexistence.systems import COMPONENTS
from kube.keys import CONTROLLER_LEASE, GANG, GATE, SYSTEM_NAMESPACE
from kube.objects import LabelSelector
from kube.versions import scheduler_version, shortcoming, way_of_holding
from planning.doctor.finding import Finding, Severity
from planning.messages.wording import listed

_NOT_LEFT = "is-not-left-to-"
"""The prefix of the name of a match condition that an optional component `without-…` adds to the webhook."""
_PODS = "pods.phalanx.dev"
_APPLY = "kubectl apply --server-side -k manifests/default"
_LEAD, _SERVE = (
    (
        f"kubectl -n {SYSTEM_NAMESPACE} rollout restart deployment/phalanx-{server}",
        f"kubectl -n {SYSTEM_NAMESPACE} rollout status deployment/phalanx-{server}",
    )
    for server in ("controller", "webhook")
)
"""The commands that restart each server and wait until it runs."""
EXPIRY_WARNING = timedelta(days=14)
"""A certificate that ends within this time gets a warning."""
SYSTEM_NAMESPACES = ("kube-system", SYSTEM_NAMESPACE)
"""Namespaces whose pods must not depend on Phalanx's webhook. Otherwise Phalanx itself could not start."""
_NAMESPACE_NAME = "kubernetes.io/metadata.name"
_OF_ANYBODY = {"pods", "jobs", "*"}
"""Resources of which most objects name no gang, so the webhook must not receive all of them."""

Object = Mapping[str, Any]
Found = Object | str | None
"""The result of reading one object: the object, None if it does not exist, or an error message as text."""


def configuration(kind: str, name: str, found: Found, served: Found, now: datetime) -> Iterator[Finding]:
    """Check one webhook configuration: it exists, trusts the served certificate, and its scope is right.

    :param found: the result of reading the webhook configuration (`Found`).
    :param served: the result of reading the Secret with the certificate that the webhook serves.
    """
    subject = f"{kind} {name}"
    if isinstance(found, str):
        yield Finding(Severity.WARNING, subject, f"could not be read: {found}")
        return
    if found is None:
        yield Finding(Severity.ERROR, subject, "is not installed: gangs are not seen at admission", _APPLY, (_APPLY,))
        return
    webhooks = found.get("webhooks") or ()
    for webhook in webhooks:
        whose = f"{subject}, {webhook['name']}"
        problem = _trust(webhook.get("clientConfig") or {}, served, now)
        if problem:
            yield Finding(Severity.ERROR, whose, problem, "the leading controller writes it: is one running?", _LEAD)
        for severity, text in _scope(webhook):
            yield Finding(severity, whose, text, "apply the manifests again", (_APPLY,))
    yield Finding(Severity.OK, subject, f"{len(webhooks)} webhooks")


def asked(found: Found, left: Mapping[str, str]) -> Iterator[Finding]:
    """Check that the API server sends the webhook the pods of all dialects except the ceded ones.

    Match conditions in the webhook configuration exclude the pods of a system, and must agree with the ceded dialects.

    :param found: the result of reading the mutating webhook configuration (`Found`).
    :param left: by ceded dialect, the title of the system to which its workloads are ceded.
    """
    if not isinstance(found, Mapping):
        return
    named = {
        each["name"]
        for webhook in found.get("webhooks") or ()
        if webhook["name"] == _PODS
        for each in webhook.get("matchConditions") or ()
    }
    for part, dialects in COMPONENTS.items():
        whose = next((left[each] for each in dialects if each in left), "")
        unasked = f"{_NOT_LEFT}{part}" in named
        if whose and not unasked:
            text = "is left alone, but what it starts is refused all the same while no replica of our webhook answers"
            remedy = f"components: [../without-{part}] in your kustomization, or --set systems.{part}=false"
            yield Finding(Severity.WARNING, whose, text, remedy)
        elif unasked and not whose:
            keys = f"the keys of {listed(dialects)}"
            text = f"is not asked about pods with {keys}, and no system is seen here that has them: they start alone"
            remedy = f"to have them gated take without-{part} out of your kustomization, or --set systems.{part}=true"
            yield Finding(Severity.WARNING, OWN, text, remedy)


def definitions(installed: Mapping[str, Found], used: Collection[str], left: Mapping[str, str]) -> Iterator[Finding]:
    """Yield warnings about the CustomResourceDefinitions of other systems, which the components `with-…` install.

    One warning is that gang members use the keys of a system whose CRDs are missing, so the component is proposed. The
    other one is that a system runs with the CRDs of Phalanx instead of its own.

    :param installed: by name, the CRDs of other systems that Phalanx can install, as read; None: not in the cluster.
    :param used: the dialects of the gang members in the cluster.
    :param left: by ceded dialect, the title of the system to which its workloads are ceded.
    """
    for part, dialects in COMPONENTS.items():
        names = [name for each in dialects for name in definition_names(each) if name in installed]
        missing = [name for name in names if installed[name] is None]
        ours = [name for name in names if _is_ours(installed[name])]
        running = next((left[each] for each in dialects if each in left), "")
        seen = [each for each in dialects if each in used]
        if running and ours:
            text = f"runs here, but {listed(ours)} are the definitions that Phalanx brings, without all of its fields"
            remedy = (
                f"install its own definitions, and take with-{part} out of your kustomization, or --set "
                + ",".join(f"definitions.{each}=false" for each in dialects)
            )
            yield Finding(Severity.WARNING, running, text, remedy)
        elif seen and missing and not running:
            text = f"pods with the keys of {listed(seen)} are here, but not the definitions {listed(missing)}"
            settings = ",".join(f"definitions.{each}=true" for each in dialects)
            remedy = f"to create such objects: components: [../with-{part}] in your kustomization, or --set {settings}"
            yield Finding(Severity.WARNING, OWN, text, remedy)


def definition_names(dialect: str) -> list[str]:
    """Return the names of the CustomResourceDefinitions in a dialect's folder of manifests/crds."""
    return [each["metadata"]["name"] for each in custom_resource_definitions(dialect)]


def _is_ours(found: Found) -> bool:
    """Whether Phalanx has installed this CRD, by its label. A system that installs its own removes the label."""
    return isinstance(found, Mapping) and OURS.items() <= (found["metadata"].get("labels") or {}).items()


def _trust(client: Object, served: Found, now: datetime) -> str:
    """Return what is wrong with a webhook's caBundle; "" if it trusts the certificate that is served."""
    written = client.get("caBundle")
    if not written:
        return "has no caBundle: every call to it fails"
    try:
        bundle = base64.b64decode(written)
        certificates = x509.load_pem_x509_certificates(bundle)
    except (ValueError, binascii.Error):
        return "has a caBundle that is no certificate"
    last = max(each.not_valid_after_utc for each in certificates)
    if last <= now:
        return f"has a caBundle that ended on {last:%Y-%m-%d}"
    leaf = None if "url" in client else _leaf(served)
    if leaf is None:
        return ""
    names = service_names(DEFAULT_PLACE.service, DEFAULT_PLACE.namespace)
    try:
        verify(leaf, bundle, names, now)
    except (VerificationError, ValueError) as error:
        return f"does not trust the certificate that is served, so that every call to it fails: {error}"
    return ""


def _leaf(served: Found) -> bytes | None:
    """Return the serving certificate (PEM) in the Secret; None if there is none that can be read."""
    if not isinstance(served, Mapping):
        return None
    try:
        leaf = base64.b64decode((served.get("data") or {})["tls.crt"])
        x509.load_pem_x509_certificate(leaf)
    except (KeyError, ValueError, binascii.Error):
        return None
    return leaf


def _scope(webhook: Object) -> Iterator[tuple[Severity, str]]:
    """Yield problems with a webhook's scope: objects that the API server should not send to it, but does."""
    resources = {each for rule in webhook.get("rules") or () for each in rule.get("resources") or ()}
    selector = webhook.get("namespaceSelector") or {}
    if resources & _OF_ANYBODY and not webhook.get("matchConditions") and _asked_in("any", selector):
        yield Severity.WARNING, "asks about every object of its rules, not only those that name a gang"
    asked = [each for each in SYSTEM_NAMESPACES if _asked_in(each, selector)]
    if resources & _OF_ANYBODY and asked:
        text = f"is asked about pods and jobs of {' and '.join(asked)}, which must start without it"
        yield (Severity.ERROR if webhook.get("failurePolicy", "Fail") == "Fail" else Severity.WARNING), text


def _asked_in(namespace: str, selector: Object) -> bool:
    """Whether a webhook's namespace selector matches this namespace, so that the API server sends its objects."""
    try:
        return selects(msgspec.convert(selector, LabelSelector), {_NAMESPACE_NAME: namespace})
    except msgspec.ValidationError:
        return True


def probe() -> Object:
    """Return a pod of a gang that does not exist, to test admission by a dry run.

    The pod meets the strictest pod security standard, so that no policy refuses it.
    """
    security = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    metadata = {"name": "phalanx-doctor", "namespace": "default", "labels": {GANG: "phalanx-doctor"}}
    container = {"name": "main", "image": "pause", "securityContext": security}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def answering(tried: Found) -> Finding:
    """Check the admission of a gang's pod: a dry run of the `probe` must return it gated.

    :param tried: the pod as it would be stored, or the API server's error message.
    """
    subject = "Admission of a gang's pod"
    if isinstance(tried, Mapping):
        gates = (tried.get("spec") or {}).get("schedulingGates") or ()
        if any(each["name"] == GATE for each in gates):
            return Finding(Severity.OK, subject, "tried: it would be gated")
        remedy = "kubectl -n phalanx-system get pods: does a replica of the webhook run?"
        return Finding(
            Severity.ERROR, subject, "tried: it would come in without its gate, and start alone", remedy, _SERVE
        )
    if "failed calling webhook" in (tried or "") and ".phalanx.dev" in (tried or ""):
        remedy = "kubectl -n phalanx-system get pods, and their logs: members are refused until a replica answers"
        return Finding(Severity.ERROR, subject, f"tried: {tried}", remedy, _SERVE)
    return Finding(Severity.WARNING, subject, f"could not be tried: {tried}")


def certificate(served: Found, now: datetime) -> Finding:
    """Check the Secret with the serving certificate: it exists, can be read, and does not end soon."""
    subject = f"Secret {DEFAULT_PLACE.namespace}/{DEFAULT_PLACE.secret}"
    if served is None or isinstance(served, str):
        text = "is not there (yet): the leader makes it" if served is None else f"could not be read: {served}"
        return Finding(Severity.WARNING, subject, text)
    leaf = _leaf(served)
    if leaf is None:
        fix = f"kubectl -n {DEFAULT_PLACE.namespace} delete secret {DEFAULT_PLACE.secret}"
        return Finding(Severity.ERROR, subject, "holds no certificate", "delete it: the leader makes a new one", (fix,))
    end = x509.load_pem_x509_certificate(leaf).not_valid_after_utc
    severity = Severity.ERROR if end < now else Severity.WARNING if end < now + EXPIRY_WARNING else Severity.OK
    text = f"the serving certificate is valid until {end:%Y-%m-%d}"
    if severity is Severity.OK:
        return Finding(severity, subject, text)
    return Finding(severity, subject, text, "the leading controller renews it: is one running?", _LEAD)


def leader(found: Found, now: datetime) -> Finding:
    """Check that a controller leads: the controllers' Lease has a holder that renews it.

    :param found: the result of reading the Lease (`Found`).
    """
    subject = f"Lease {SYSTEM_NAMESPACE}/{CONTROLLER_LEASE}"
    if isinstance(found, str):
        return Finding(Severity.WARNING, subject, f"could not be read: {found}")
    spec = (found or {}).get("spec") or {}
    holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
    if not holder or not renewed:
        text = "no controller leads: gangs wait, gated"
        return Finding(Severity.ERROR, subject, text, "is the controller running?", _LEAD)
    silent = now - datetime.fromisoformat(renewed)
    if silent.total_seconds() > float(spec.get("leaseDurationSeconds") or 15) * 2:
        seconds = int(silent.total_seconds())
        return Finding(Severity.ERROR, subject, f"{holder} has been silent for {seconds} s", "is it running?", _LEAD)
    return Finding(Severity.OK, subject, f"{holder} leads")


def version(found: Found, schedulers: Found) -> Finding:
    """Check how the capacity of planned gangs is reserved in this version of Kubernetes.

    :param found: the API server's answer at `/version`.
    :param schedulers: the list of the stock scheduler's pods, as read.
    """
    if not isinstance(found, Mapping):
        return Finding(Severity.WARNING, "Kubernetes", f"its version could not be read: {found}")
    api_server = str(found["gitVersion"])
    pods = (schedulers.get("items") or ()) if isinstance(schedulers, Mapping) else ()
    oldest = scheduler_version(api_server, pods)
    subject = f"Kubernetes {api_server}"
    if lacking := shortcoming(oldest):
        return Finding(Severity.WARNING, subject, lacking, "see docs/reference/kubernetes-versions.md")
    return Finding(Severity.OK, subject, way_of_holding(oldest))
