"""The doctor's findings about Phalanx's own webhooks, certificate and leader, one fault in each row."""

import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from certs.authority import Pair, issue, new_authority, service_names
from certs.cluster_edge import CONFIGURATIONS, DEFAULT_PLACE
from cli.installation.doctor_checks import answering, asked, certificate, configuration, definitions, leader, version
from cli.installation.installed_objects import OURS, webhook_configurations
from planning.doctor.finding import Finding, Severity

NOW = datetime(2026, 6, 1, tzinfo=UTC)
NAMES = service_names(DEFAULT_PLACE.service, DEFAULT_PLACE.namespace)
AUTHORITY = new_authority("ours", NOW - timedelta(days=1))
KIND, NAME = CONFIGURATIONS[0]
SYSTEM = ["kube-system", "phalanx-system"]

Object = dict[str, Any]


def secret(authority: Pair = AUTHORITY, made: datetime = NOW - timedelta(days=1)) -> Object:
    """The Secret with a certificate of this authority."""
    leaf = issue(authority, NAMES, made)
    return {"data": {"tls.crt": base64.b64encode(leaf.certificate).decode()}}


def webhook(**changes: Any) -> Object:
    """A webhook of pods as it should be, changed."""
    bundle = base64.b64encode(AUTHORITY.certificate).decode()
    outside = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": SYSTEM}
    return {
        "name": "pods",
        "clientConfig": {"service": {"name": DEFAULT_PLACE.service}, "caBundle": bundle},
        "rules": [{"resources": ["pods"]}],
        "namespaceSelector": {"matchExpressions": [outside]},
        "matchConditions": [{"name": "names-a-gang", "expression": "true"}],
        "failurePolicy": "Fail",
        **changes,
    }


def trusting(bundle: bytes) -> Object:
    """A webhook with another caBundle."""
    return webhook(clientConfig={"service": {}, "caBundle": base64.b64encode(bundle).decode()})


def ill(findings: Iterator[Finding]) -> list[tuple[str, str]]:
    """Severity and text of what is not well."""
    return [(each.severity.value, each.text) for each in findings if each.severity is not Severity.OK]


OLD = new_authority("old", NOW - timedelta(days=800), timedelta(days=700))
STRANGER = new_authority("another", NOW - timedelta(days=1))
EVERYWHERE = "is asked about pods and jobs of kube-system and phalanx-system, which must start without it"
WEBHOOKS: dict[str, tuple[Object, list[tuple[str, str]]]] = {
    "nothing wrong": (webhook(), []),
    "no caBundle": (webhook(clientConfig={"service": {}}), [("error", "has no caBundle: every call to it fails")]),
    "a caBundle that is none": (trusting(b"no"), [("error", "has a caBundle that is no certificate")]),
    "a caBundle that ended": (trusting(OLD.certificate), [("error", "has a caBundle that ended on 2026-02-21")]),
    "no conditions": (
        webhook(matchConditions=[]),
        [("warning", "asks about every object of its rules, not only those that name a gang")],
    ),
    "the system's own namespaces": (webhook(namespaceSelector={}), [("error", EVERYWHERE)]),
    "the same, where it may be away": (
        webhook(namespaceSelector={}, failurePolicy="Ignore"),
        [("warning", EVERYWHERE)],
    ),
    "a namespace's own wish": (
        webhook(matchConditions=[], namespaceSelector={"matchLabels": {"phalanx.dev/automatic": "true"}}),
        [],
    ),
    "objects of ours alone": (
        webhook(rules=[{"resources": ["gangs"]}], matchConditions=[], namespaceSelector={}),
        [],
    ),
}


@pytest.mark.parametrize(("written", "expected"), WEBHOOKS.values(), ids=WEBHOOKS)
def test_a_webhook_with(written: Object, expected: list[tuple[str, str]]) -> None:
    assert ill(configuration(KIND, NAME, {"webhooks": [written]}, secret(), NOW)) == expected


def test_a_webhook_that_does_not_trust_what_is_served() -> None:
    ((severity, text),) = ill(configuration(KIND, NAME, {"webhooks": [webhook()]}, secret(STRANGER), NOW))
    assert severity == "error"
    assert text.startswith("does not trust the certificate that is served, so that every call to it fails: ")


@pytest.mark.parametrize(("found", "severity"), [(None, "error"), ("forbidden", "warning")])
def test_a_configuration_that_is_not_there_or_not_for_us(found: str | None, severity: str) -> None:
    assert [each for each, _ in ill(configuration(KIND, NAME, found, None, NOW))] == [severity]


def test_the_manifests_own_webhooks_are_in_scope() -> None:
    for each in webhook_configurations("https://localhost:1", AUTHORITY.certificate):
        if each["kind"] in dict(CONFIGURATIONS):
            found = configuration(each["kind"], each["metadata"]["name"], each, None, NOW)
            assert ill(found) == []


CERTIFICATES: dict[str, tuple[Object | str | None, str]] = {
    "valid": (secret(), "ok"),
    "about to end": (secret(made=NOW - timedelta(days=80)), "warning"),
    "ended": (secret(made=NOW - timedelta(days=100)), "error"),
    "none": ({"data": {}}, "error"),
    "text": ({"data": {"tls.crt": "bm8="}}, "error"),
    "not there": (None, "warning"),
    "not for us": ("forbidden", "warning"),
}


@pytest.mark.parametrize(("served", "severity"), CERTIFICATES.values(), ids=CERTIFICATES)
def test_a_certificate_that_is(served: Object | str | None, severity: str) -> None:
    assert certificate(served, NOW).severity.value == severity


RESTART = "kubectl -n phalanx-system rollout restart deployment/phalanx-controller"
STATUS = "kubectl -n phalanx-system rollout status deployment/phalanx-controller"
NEW = "kubectl -n phalanx-system delete secret phalanx-webhook-certs"
FIXES: dict[str, tuple[str, ...]] = {
    "valid": (),
    "about to end": (RESTART, STATUS),
    "ended": (RESTART, STATUS),
    "none": (NEW,),
    "text": (NEW,),
    "not there": (),
    "not for us": (),
}


@pytest.mark.parametrize("which", CERTIFICATES)
def test_what_puts_a_certificate_right_is_the_command_as_it_is_typed(which: str) -> None:
    assert certificate(CERTIFICATES[which][0], NOW).fix == FIXES[which]


def lease(seconds_ago: int) -> Object:
    """A Lease renewed so long ago."""
    renewed = (NOW - timedelta(seconds=seconds_ago)).isoformat()
    return {"spec": {"holderIdentity": "a", "renewTime": renewed, "leaseDurationSeconds": 15}}


LEASES: dict[str, tuple[Object | str | None, str]] = {
    "renewed": (lease(5), "a leads"),
    "silent": (lease(90_000), "a has been silent for 90000 s"),
    "nobody's": ({"spec": {}}, "no controller leads: gangs wait, gated"),
    "not there": (None, "no controller leads: gangs wait, gated"),
    "not for us": ("forbidden", "could not be read: forbidden"),
}


@pytest.mark.parametrize(("found", "text"), LEASES.values(), ids=LEASES)
def test_a_lease_that_is(found: Object | str | None, text: str) -> None:
    assert leader(found, NOW).text == text


TRIED: dict[str, tuple[Object | str, Severity, str]] = {
    "gated": ({"spec": {"schedulingGates": [{"name": "phalanx.dev/gang"}]}}, Severity.OK, "it would be gated"),
    "not gated": ({"spec": {}}, Severity.ERROR, "it would come in without its gate, and start alone"),
    "nobody answers": (
        'Internal error occurred: failed calling webhook "pods.phalanx.dev": connection refused',
        Severity.ERROR,
        "connection refused",
    ),
    "another's webhook is down": ('failed calling webhook "pods.example.com": EOF', Severity.WARNING, "example.com"),
    "may not": ('pods is forbidden: User "eve" cannot create', Severity.WARNING, "could not be tried: pods is"),
}


@pytest.mark.parametrize(("tried", "severity", "text"), TRIED.values(), ids=TRIED)
def test_a_gangs_pod_that_is_tried(tried: Object | str, severity: Severity, text: str) -> None:
    finding = answering(tried)
    assert finding.severity is severity
    assert text in finding.text
    assert bool(finding.remedy) is (severity is Severity.ERROR)


KUEUE = {"name": "pods.phalanx.dev", "matchConditions": [{"name": "is-not-left-to-kueue", "expression": "true"}]}
ALL = {"name": "pods.phalanx.dev", "matchConditions": [{"name": "names-a-gang", "expression": "true"}]}


@pytest.mark.parametrize(
    ("pods", "left", "said"),
    [
        (ALL, {}, []),
        (KUEUE, {"kueue": "Kueue"}, []),
        (ALL, {"kueue": "Kueue"}, ["Kueue: is left alone, but what it starts is refused all the same"]),
        (ALL, {"kai": "NVIDIA Run:ai", "runai": "NVIDIA Run:ai"}, ["NVIDIA Run:ai: is left alone, but"]),
        (KUEUE, {}, ["MutatingWebhookConfiguration zz-phalanx: is not asked about pods with the keys of kueue"]),
    ],
)
def test_whose_pods_are_asked_about_is_proposed_by_what_runs_here(
    pods: Object, left: dict[str, str], said: list[str]
) -> None:
    found = list(asked({"webhooks": [pods]}, left))
    assert [f"{each.subject}: {each.text}"[: len(start)] for each, start in zip(found, said, strict=True)] == said
    assert all("systems." in each.remedy for each in found)


@pytest.mark.parametrize("found", [None, "forbidden"])
def test_where_no_configuration_can_be_read_nothing_is_proposed(found: str | None) -> None:
    assert list(asked(found, {"kueue": "Kueue"})) == []


QUEUES = ("clusterqueues.kueue.x-k8s.io", "topologies.kueue.x-k8s.io")
BROUGHT = {"metadata": {"labels": OURS}}
ITS_OWN = {"metadata": {"labels": {"app.kubernetes.io/name": "kueue"}}}


@pytest.mark.parametrize(
    ("found", "used", "left", "said"),
    [
        (None, {"kueue"}, {}, f"pods with the keys of kueue are here, but not the definitions {' and '.join(QUEUES)}"),
        (None, {"kai"}, {}, ""),
        (None, {"kueue"}, {"kueue": "Kueue"}, ""),
        (BROUGHT, {"kueue"}, {}, ""),
        (BROUGHT, set[str](), {"kueue": "Kueue"}, f"runs here, but {' and '.join(QUEUES)} are the definitions that"),
        (ITS_OWN, set[str](), {"kueue": "Kueue"}, ""),
        ("forbidden", {"kueue"}, {}, ""),
    ],
)
def test_definitions_of_other_systems_are_proposed_by_what_is_here(
    found: Object | str | None, used: set[str], left: dict[str, str], said: str
) -> None:
    findings = list(definitions(dict.fromkeys(QUEUES, found), used, left))
    assert [each.text[: len(said)] for each in findings] == [said] * bool(said)
    assert all("with-kueue" in each.remedy and "definitions.kueue=" in each.remedy for each in findings)


PRESENT = {"gitVersion": "v1.37.1"}
SCHEDULERS = {"items": [{"spec": {"containers": [{"image": "registry.k8s.io/kube-scheduler:v1.36.3"}]}}]}


@pytest.mark.parametrize(
    ("found", "schedulers", "severity", "says"),
    [
        (PRESENT, {"items": []}, Severity.OK, "the scheduler 1.37 reserves capacity for gated pods"),
        (PRESENT, "forbidden", Severity.OK, "the scheduler 1.37 reserves capacity for gated pods"),
        (PRESENT, SCHEDULERS, Severity.OK, "the scheduler 1.36 forgets the nominations of gated pods"),
        ({"gitVersion": "v1.34.4"}, None, Severity.OK, "so placeholders reserve the capacity of planned gangs"),
        ({"gitVersion": "v1.30.1"}, None, Severity.WARNING, "1.30, older than 1.33"),
        ("unreachable", None, Severity.WARNING, "its version could not be read: unreachable"),
    ],
    ids=["new", "pods not shown", "an older scheduler", "old", "too old", "not read"],
)
def test_how_capacity_is_reserved_is_said(
    found: Object | str, schedulers: Object | str | None, severity: Severity, says: str
) -> None:
    finding = version(found, schedulers)
    assert (finding.severity, says in finding.text) == (severity, True), finding
