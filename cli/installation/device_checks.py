"""The checks of `phalanx doctor` on the component that allocates devices in advance: its objects and rights, and the
kinds it needs.

The functions have no side effects. They take objects as they were read from the cluster, and return findings.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cli.installation.doctor_checks import Found
from cli.installation.installed_objects import component_objects
from cluster.devices.holdings import CLAIMS_PATH, RULES_PATH
from planning.doctor.finding import Finding, Severity
from planning.messages.wording import compressed, listed

_SUBJECT = "Devices of gangs"
_INSTALL = ("kubectl apply --server-side -f manifests/devices/access.yaml -f manifests/devices/guard.yaml",)
_REMEDY = "install the component manifests/devices, or set devices=true in the chart (docs: Run gangs with devices)"
_PATHS = {
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
}
"""By kind of the component's objects: the API path of the kind."""


def paths() -> list[str]:
    """Return the API paths of the objects of the component `manifests/devices`."""
    return [_path(each) for each in component_objects("devices")]


def _path(manifest: Mapping[str, Any]) -> str:
    metadata = manifest["metadata"]
    return f"{_PATHS[manifest['kind']].format(namespace=metadata.get('namespace', ''))}/{metadata['name']}"


def component(found: Mapping[str, Found], claiming: Sequence[str]) -> Iterator[Finding]:
    """Check that all objects of the component `manifests/devices` exist, with all rules of its roles.

    :param found: by path (`paths`), the result of reading the object.
    :param claiming: the waiting members of gangs with ResourceClaims, as `namespace/name`.
    """
    if unread := [str(each) for each in found.values() if isinstance(each, str)]:
        yield Finding(Severity.WARNING, _SUBJECT, f"the component could not be read: {unread[0]}")
        return
    objects = component_objects("devices")
    missing = [f"{each['kind']} {each['metadata']['name']}" for each in objects if found[_path(each)] is None]
    if len(missing) == len(objects):
        if claiming:
            pods = f"pod {claiming[0]} has" if len(claiming) == 1 else f"pods {compressed(claiming)} have"
            text = f"{pods} ResourceClaims, and Phalanx may not hold devices here: the gangs stay gated"
            yield Finding(Severity.ERROR, _SUBJECT, text, _REMEDY, _INSTALL)
        return
    if missing:
        yield Finding(Severity.ERROR, _SUBJECT, f"the component lacks {listed(missing)}", _REMEDY, _INSTALL)
    for each in objects:
        here = found[_path(each)]
        if not isinstance(here, Mapping) or "rules" not in each:
            continue
        rules = here.get("rules") or ()
        lacking = [_right(rule) for rule in each["rules"] if not _is_granted(rule, rules)]
        if lacking:
            subject = f"{each['kind']} {each['metadata']['name']}"
            yield Finding(Severity.ERROR, subject, f"lacks the right to {listed(lacking)}", _REMEDY, _INSTALL)
    if not missing:
        yield Finding(Severity.OK, _SUBJECT, "the component is installed")


def _right(rule: Mapping[str, Any]) -> str:
    return f"{listed(rule['verbs'])} {listed(rule['resources'])}"


def _is_granted(wanted: Mapping[str, Any], rules: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether rules of a role grant all that a rule of the manifest grants."""
    return all(
        any(
            _has(rule, "apiGroups", group) and _has(rule, "resources", resource) and _has(rule, "verbs", verb)
            for rule in rules
            if not rule.get("resourceNames")
        )
        for group in wanted["apiGroups"]
        for resource in wanted["resources"]
        for verb in wanted["verbs"]
    )


def _has(rule: Mapping[str, Any], field: str, value: str) -> bool:
    return bool({value, "*"} & set(rule.get(field) or ()))


def kinds(claims: Found, rules: Found) -> Iterator[Finding]:
    """Check that the API server serves the kinds that the component `manifests/devices` needs.

    :param claims: the result of listing ResourceClaims.
    :param rules: the result of listing DeviceTaintRules.
    """
    if claims is None:
        text = "this API server serves no ResourceClaims of resource.k8s.io/v1: gangs with claims stay gated"
        yield Finding(Severity.ERROR, _SUBJECT, text, "see docs/reference/kubernetes-versions.md: 1.34 or newer")
    elif rules is None:
        text = (
            "this API server serves no DeviceTaintRules: kube-scheduler may give a device to another claim while "
            "Phalanx takes it; Phalanx then finds this before the release, and gives the device up"
        )
        yield Finding(Severity.WARNING, _SUBJECT, text, "see docs/reference/kubernetes-versions.md: 1.37 or newer")
    for path, one in ((CLAIMS_PATH, claims), (RULES_PATH, rules)):
        if isinstance(one, str):
            yield Finding(Severity.WARNING, _SUBJECT, f"{path} could not be read: {one}")
