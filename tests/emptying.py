"""Gives a test a cluster without anything of the tests before it."""

from collections.abc import Collection, Mapping

from controlplane.control_plane import ControlPlane, wait_until
from controlplane.store import Stored

KEPT_NAMESPACES = {"default", "kube-system", "kube-public", "kube-node-lease", "phalanx-system"}
KEPT_PRIORITY_CLASSES = ("system-", "phalanx-")
PATIENCE_SECONDS = 300.0
_ALL_OF_A_KIND_SECONDS = 600.0
"""The time limit of a request that deletes all objects of a kind, which may be thousands."""

_WEBHOOKS = (
    "admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
    "admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
    "admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
)
_AWAITED = (
    "apps/v1/deployments",
    "apps/v1/statefulsets",
    "apps/v1/daemonsets",
    "apps/v1/replicasets",
    "batch/v1/cronjobs",
    "batch/v1/jobs",
    "v1/pods",
    "v1/nodes",
)
"""Kinds that must be gone before a test begins. Kinds whose controllers create pods come before the pods."""
_OTHERS = (
    "policy/v1/poddisruptionbudgets",
    "storage.k8s.io/v1/storageclasses",
    "node.k8s.io/v1/runtimeclasses",
    "resource.k8s.io/v1/resourceclaims",
    "resource.k8s.io/v1/resourceclaimtemplates",
    "resource.k8s.io/v1/resourceslices",
    "resource.k8s.io/v1/devicetaintrules",
    "resource.k8s.io/v1/deviceclasses",
    "v1/resourcequotas",
    "v1/persistentvolumeclaims",
    "v1/persistentvolumes",
    "v1/limitranges",
)
_MADE_FOR_WORKLOADS = (
    "v1/configmaps",
    "v1/secrets",
    "v1/serviceaccounts",
    "rbac.authorization.k8s.io/v1/rolebindings",
    "rbac.authorization.k8s.io/v1/roles",
    "apps/v1/controllerrevisions",
)
"""Kinds of objects that operators create in addition to pods.

If the owner's kind is removed before the garbage collector runs, such an object stays for ever. The next operator then
refuses to create a workload of the same name.
"""
_FILED_AS = {"v1/nodes": "minions", "v1/services": "services/specs"}
"""By kind: the name under which etcd stores its objects, where it differs from the plural."""
_NO_CUSTOM_KINDS = ("apiextensions.k8s.io/", "apiregistration.k8s.io/")
"""Prefixes of etcd keys that contain a group's name but belong to the API server, not to custom objects."""
_ALWAYS_THERE = ("default", "kube-root-ca.crt")
"""Names of the objects that the controller-manager creates in every namespace."""
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NOW = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "propagationPolicy": "Background"}

Objects = Mapping[str, list[Stored]]


def empty(control_plane: ControlPlane, *, webhooks: bool = True, kept: Collection[str] = ()) -> None:
    """Remove the objects that tests have created. Definitions of kinds, access rules and the system namespace stay.

    Controllers still finish work that they had begun, so the removal repeats until no object is left. A namespace
    terminates for five more seconds, because the controller-manager waits so long. A test therefore gives its own
    namespace a fresh name.

    :param webhooks: whether to remove webhook configurations and admission policies, too.
    :param kept: names of the webhook configurations that stay.
    """
    if webhooks:
        _remove_webhooks(control_plane, kept)
    wait_until(lambda: not _remove(control_plane), PATIENCE_SECONDS, "the cluster to become empty")
    found = control_plane.stored()
    _remove_named(control_plane, "scheduling.k8s.io/v1/priorityclasses", KEPT_PRIORITY_CLASSES, found)
    _remove_named(control_plane, "v1/namespaces", tuple(KEPT_NAMESPACES), found)
    _remove_all(control_plane, "v1/events", found)


def _remove_webhooks(control_plane: ControlPlane, kept: Collection[str]) -> None:
    found = control_plane.stored()
    for kind in _WEBHOOKS:
        for name in (each.name for each in files(kind, found)):
            if name not in kept or not kind.endswith("webhookconfigurations"):
                control_plane.request("DELETE", f"{path_of(kind)}/{name}")


def _remove(control_plane: ControlPlane) -> bool:
    """Delete all objects, and return whether any of the kinds in `_AWAITED` still had objects."""
    found = control_plane.stored()
    _remove_custom(control_plane, found)
    for kind in _OTHERS:
        _remove_all(control_plane, kind, found)
    _remove_services(control_plane, found)
    for kind in _MADE_FOR_WORKLOADS:
        _remove_owned(control_plane, kind, found)
    for kind in _AWAITED:
        _remove_all(control_plane, kind, found)
    return any(files(kind, found) for kind in _AWAITED)


def kinds() -> tuple[str, ...]:
    """All kinds that `empty` removes, as `group/version/plural`, without custom kinds."""
    named = ("v1/services", "v1/events", "v1/namespaces", "scheduling.k8s.io/v1/priorityclasses")
    return (*_WEBHOOKS, *_AWAITED, *_OTHERS, *_MADE_FOR_WORKLOADS, *named)


def files(kind: str, found: Objects) -> list[Stored]:
    """The objects of one kind among all objects that etcd stores."""
    return found.get(_FILED_AS.get(kind, kind.rpartition("/")[2]), [])


def _remove_all(control_plane: ControlPlane, kind: str, found: Objects) -> None:
    """Delete all objects of one kind, with one request per namespace."""
    for namespace in {each.namespace for each in files(kind, found)}:
        control_plane.request("DELETE", path_of(kind, namespace), _NOW, seconds=_ALL_OF_A_KIND_SECONDS)


def _remove_custom(control_plane: ControlPlane, found: Objects) -> None:
    """Delete the custom objects of all kinds that are served.

    The API server does not serve a kind whose definition is not established yet, or is being deleted.
    """
    for filed_as in (each for each in found if "." in each and not each.startswith(_NO_CUSTOM_KINDS)):
        group, _, plural = filed_as.partition("/")
        definition = control_plane.request("GET", f"{_DEFINITIONS}/{plural}.{group}")
        if definition.get("kind") != "CustomResourceDefinition" or "deletionTimestamp" in definition["metadata"]:
            continue
        conditions = definition.get("status", {}).get("conditions", [])
        if {("Established", "True")}.isdisjoint((each["type"], each["status"]) for each in conditions):
            continue
        version = next(each["name"] for each in definition["spec"]["versions"] if each["served"])
        for namespace in {each.namespace for each in found[filed_as]}:
            path = path_of(f"{group}/{version}/{plural}", namespace)
            control_plane.request("DELETE", path, _NOW, seconds=_ALL_OF_A_KIND_SECONDS)


def _remove_services(control_plane: ControlPlane, found: Objects) -> None:
    """Delete the services of operators' workloads.

    If the kind of its owner is gone, a service stays, and another operator cannot create a service of the same name.
    """
    for namespace, name in files("v1/services", found):
        if namespace not in KEPT_NAMESPACES - {"default"} and (namespace, name) != ("default", "kubernetes"):
            control_plane.request("DELETE", f"/api/v1/namespaces/{namespace}/services/{name}")


def _remove_owned(control_plane: ControlPlane, kind: str, found: Objects) -> None:
    """Delete the objects of one kind that have an owner reference."""
    of_tests = (each for each in files(kind, found) if each.namespace not in KEPT_NAMESPACES - {"default"})
    for namespace, name in (each for each in of_tests if each.name not in _ALWAYS_THERE):
        path = f"{path_of(kind, namespace)}/{name}"
        if "ownerReferences" in control_plane.request("GET", path).get("metadata", {}):
            control_plane.request("DELETE", path)


def _remove_named(control_plane: ControlPlane, kind: str, kept: tuple[str, ...], found: Objects) -> None:
    for each in files(kind, found):
        if not each.name.startswith(kept):
            control_plane.request("DELETE", f"{path_of(kind)}/{each.name}")


def path_of(kind: str, namespace: str = "") -> str:
    """The URL path of the objects of a kind, in one namespace, or without a namespace if it is empty."""
    group_version, _, plural = kind.rpartition("/")
    root = "/apis" if "/" in group_version else "/api"
    return f"{root}/{group_version}/{f'namespaces/{namespace}/' if namespace else ''}{plural}"
