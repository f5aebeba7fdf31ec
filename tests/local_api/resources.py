"""The resources that the local API server serves."""

import re
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """A kind of object, one of `RESOURCES`: two are equal if they are the same object.

    `status`: it has that subresource. `counted`: its generation counts changes of what is asked, which is the spec, or,
    of a kind that has no status of its own, everything but the metadata.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    status: bool = False
    counted: bool = False

    @property
    def api_version(self) -> str:
        """As objects have it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def custom(self) -> bool:
        """Whether it comes with a definition, so that the API server keeps what is written word by word."""
        return self.group.endswith((".dev", ".sigs.k8s.io", ".x-k8s.io"))

    @property
    def qualified(self) -> str:
        """As messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


PODS = Resource("", "v1", "pods", "Pod", status=True, counted=True)
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", status=True, counted=True)
CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
GANGS = Resource("phalanx.dev", "v1alpha1", "gangs", "Gang", status=True, counted=True)

_KUEUE = "kueue.x-k8s.io"
RESOURCES = (
    PODS,
    BUDGETS,
    CLASSES,
    GANGS,
    Resource("", "v1", "nodes", "Node", namespaced=False, status=True),
    Resource("", "v1", "namespaces", "Namespace", namespaced=False, status=True),
    Resource("", "v1", "configmaps", "ConfigMap"),
    Resource("", "v1", "resourcequotas", "ResourceQuota", status=True),
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", status=True),
    Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False, status=True),
    Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False),
    Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False),
    Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False),
    Resource("coordination.k8s.io", "v1", "leases", "Lease"),
    Resource("events.k8s.io", "v1", "events", "Event"),
    Resource("phalanx.dev", "v1alpha1", "topologies", "Topology", namespaced=False, status=True, counted=True),
    Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet", status=True, counted=True),
    Resource("apps", "v1", "statefulsets", "StatefulSet", status=True, counted=True),
    Resource("batch", "v1", "jobs", "Job", status=True, counted=True),
    Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob", status=True, counted=True),
    Resource("scheduling.sigs.k8s.io", "v1alpha1", "podgroups", "PodGroup", counted=True),
    Resource("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup", status=True, counted=True),
    Resource(_KUEUE, "v1beta2", "resourceflavors", "ResourceFlavor", namespaced=False, counted=True),
    Resource(_KUEUE, "v1beta2", "clusterqueues", "ClusterQueue", namespaced=False, status=True, counted=True),
    Resource(_KUEUE, "v1beta2", "localqueues", "LocalQueue", status=True, counted=True),
)

CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", status=True)
RULES = Resource("resource.k8s.io", "v1", "devicetaintrules", "DeviceTaintRule", namespaced=False)
FOR_DEVICES = (
    CLAIMS,
    RULES,
    Resource("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate"),
    Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False),
)
"""Resources of devices beyond `RESOURCES`, in the order in which caches list them."""

_ADMISSION = "admissionregistration.k8s.io"
FOR_COMMANDS = tuple(
    Resource(_ADMISSION, "v1", f"{kind.lower()}s", kind, namespaced=False)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
)
"""Resources that commands read beyond `RESOURCES`. Other tests do without them: each costs their caches a thread."""

_PATH = re.compile(
    r"(?:/api|/apis/(?P<group>[^/]+))/(?P<version>v\d\w*)(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<part>[^/]+))?)?"
)


@dataclass(frozen=True, slots=True)
class Address:
    """A collection, object or subresource. `name` "": the collection; `part`: the subresource, "" for none."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    part: str = ""


@lru_cache(maxsize=10_000)
def address(path: str, served: tuple[Resource, ...] = RESOURCES) -> Address | None:
    """Return the address that the path names; None if the path or its resource is not served."""
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    wanted = found["group"] or "", found["version"], found["plural"]
    resource = next((each for each in served if (each.group, each.version, each.plural) == wanted), None)
    if resource is None:
        return None
    return Address(resource, found["namespace"] or "", found["name"] or "", found["part"] or "")
