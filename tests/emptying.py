"""Gives a test a cluster without anything of the tests before it."""

from collections.abc import Iterator

from controlplane.control_plane import ControlPlane, wait_until

KEPT_NAMESPACES = {"default", "kube-system", "kube-public", "kube-node-lease", "phalanx-system"}
KEPT_PRIORITY_CLASSES = ("system-", "phalanx-")
PATIENCE_SECONDS = 120.0
_ALL_OF_A_KIND_SECONDS = 600.0
"""For thousands of objects in one request."""

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
"""Makers of pods before the pods."""
_OTHERS = (
    "policy/v1/poddisruptionbudgets",
    "storage.k8s.io/v1/storageclasses",
    "v1/resourcequotas",
    "v1/persistentvolumeclaims",
    "v1/persistentvolumes",
    "v1/resourcequotas",
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
"""What operators make beside the pods. If its owner's kind went before the garbage collector looked, it stays for ever,
and the next operator refuses to make a workload of the same name.
"""
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_NAMESPACES = "/api/v1/namespaces"
_NOW = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "propagationPolicy": "Background"}


def empty(control_plane: ControlPlane, *, webhooks: bool = True) -> None:
    """Remove what tests have made; definitions of kinds, access rules and the system namespace stay.

    With `webhooks`, registrations of webhooks go, too.

    Again and again until a look finds nothing, because controllers still finish what they had begun. Namespaces are on
    their way out for five more seconds (the controller-manager waits so long): a test gives its own a fresh name.
    """
    if webhooks:
        _remove_webhooks(control_plane)
    wait_until(lambda: not _remove(control_plane), PATIENCE_SECONDS, "the cluster to become empty")
    _remove_named(control_plane, _CLASSES, KEPT_PRIORITY_CLASSES)
    _remove_named(control_plane, _NAMESPACES, tuple(KEPT_NAMESPACES))
    _remove_all(control_plane, "v1/events")


def _remove_webhooks(control_plane: ControlPlane) -> None:
    for kind in _WEBHOOKS:
        control_plane.request("DELETE", _path(kind))


def _remove(control_plane: ControlPlane) -> bool:
    """Delete everything there is; whether there was anything that a test would notice."""
    for kind in (*_custom_kinds(control_plane), *_OTHERS):
        _remove_all(control_plane, kind)
    _remove_services(control_plane)
    for kind in _MADE_FOR_WORKLOADS:
        _remove_owned(control_plane, kind)
    found = [_remove_all(control_plane, kind) for kind in _AWAITED]
    return any(found)


def _remove_all(control_plane: ControlPlane, kind: str) -> bool:
    """Delete the objects of a kind; whether there were any."""
    items = control_plane.request("GET", _path(kind), seconds=_ALL_OF_A_KIND_SECONDS).get("items", [])
    for namespace in {each["metadata"].get("namespace", "") for each in items}:
        control_plane.request("DELETE", _path(kind, namespace), _NOW, seconds=_ALL_OF_A_KIND_SECONDS)
    return bool(items)


def _remove_services(control_plane: ControlPlane) -> None:
    """Those of operators' workloads. One whose owner's kind is gone stays, and another operator cannot make its own."""
    for each in control_plane.request("GET", "/api/v1/services")["items"]:
        namespace, name = each["metadata"]["namespace"], each["metadata"]["name"]
        if namespace not in KEPT_NAMESPACES - {"default"} and (namespace, name) != ("default", "kubernetes"):
            control_plane.request("DELETE", f"/api/v1/namespaces/{namespace}/services/{name}")


def _remove_owned(control_plane: ControlPlane, kind: str) -> None:
    """Delete those objects of a kind that belong to another object."""
    for metadata in (each["metadata"] for each in control_plane.request("GET", _path(kind))["items"]):
        if "ownerReferences" in metadata:
            control_plane.request("DELETE", f"{_path(kind, metadata['namespace'])}/{metadata['name']}")


def _remove_named(control_plane: ControlPlane, path: str, kept: tuple[str, ...]) -> None:
    for each in control_plane.request("GET", path)["items"]:
        name = each["metadata"]["name"]
        if not name.startswith(kept):
            control_plane.request("DELETE", f"{path}/{name}")


def _custom_kinds(control_plane: ControlPlane) -> Iterator[str]:
    """The kinds that are served: of one that is on its way in or out the API server knows nothing."""
    for definition in control_plane.request("GET", _DEFINITIONS)["items"]:
        spec, conditions = definition["spec"], definition.get("status", {}).get("conditions", [])
        if {("Established", "True")}.isdisjoint((each["type"], each["status"]) for each in conditions):
            continue
        if "deletionTimestamp" in definition["metadata"]:
            continue
        version = next(each["name"] for each in spec["versions"] if each["served"])
        yield f"{spec['group']}/{version}/{spec['names']['plural']}"


def _path(kind: str, namespace: str = "") -> str:
    group_version, _, plural = kind.rpartition("/")
    root = "/apis" if "/" in group_version else "/api"
    return f"{root}/{group_version}/{f'namespaces/{namespace}/' if namespace else ''}{plural}"
