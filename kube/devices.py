"""The kinds of the API group resource.k8s.io, decoded by msgspec: devices, and the claims that ask for them.

The fields are those of version v1. Version v1beta2 has equal ones. Quantities and CEL expressions are kept as written.
"""

from typing import Any

import msgspec

from kube.objects import NodeSelector, ObjectMeta, Struct, Toleration

GROUP = "resource.k8s.io"
VERSIONS = ("v1", "v1beta2")
"""The versions with the fields of this module, the newest first. An API server before 1.34 does not serve v1."""


def paths(plural: str, versions: tuple[str, ...] = VERSIONS) -> tuple[str, ...]:
    """Return the API paths under which a kind of this group may be served, the newest version first."""
    return tuple(f"/apis/{GROUP}/{version}/{plural}" for version in versions)


class CELDeviceSelector(Struct, frozen=True):
    """CELDeviceSelector: a CEL expression about the variable `device`."""

    expression: str = ""


class DeviceSelector(Struct, frozen=True):
    """DeviceSelector. `cel` None: the selector has a form that this version of Phalanx does not know."""

    cel: CELDeviceSelector | None = None


class DeviceClassSpec(Struct, frozen=True):
    """DeviceClassSpec, with the fields that Phalanx reads. `config`: parameters for drivers. `extended_resource_name`:
    "" if the class has none.
    """

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[dict[str, Any], ...] = ()
    extended_resource_name: str = ""


class DeviceClass(Struct, frozen=True):
    """DeviceClass: the devices that match all selectors of its spec."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceAttribute(Struct, frozen=True):
    """DeviceAttribute: exactly one of the fields is set. `version`: a semantic version 2.0.0."""

    int_: int | None = msgspec.field(default=None, name="int")
    bool_: bool | None = msgspec.field(default=None, name="bool")
    string: str | None = None
    version: str | None = None


class CapacityRange(Struct, frozen=True):
    """CapacityRequestPolicyRange: the amounts that a request may consume, from `min` to `max` in steps of `step`."""

    min: str | int | float = 0
    max: str | int | float | None = None
    step: str | int | float | None = None


class CapacityPolicy(Struct, frozen=True):
    """CapacityRequestPolicy: how a request for a part of a capacity is rounded. `default`: the amount that a request
    consumes if it does not name the capacity.
    """

    default: str | int | float | None = None
    valid_values: tuple[str | int | float, ...] = ()
    valid_range: CapacityRange | None = None


class DeviceCapacity(Struct, frozen=True):
    """DeviceCapacity: a quantity, as written. `request_policy`: None if a request consumes the whole capacity."""

    value: str | int | float = 0
    request_policy: CapacityPolicy | None = None


class Counter(Struct, frozen=True):
    """Counter: a quantity, as written."""

    value: str | int | float = 0


class CounterSet(Struct, frozen=True):
    """CounterSet: the counters, by name, from which all partitions of one physical device consume."""

    name: str = ""
    counters: dict[str, Counter] = msgspec.field(default_factory=dict)


class DeviceCounterConsumption(Struct, frozen=True):
    """DeviceCounterConsumption: the amounts that a device consumes of a counter set as long as it is allocated."""

    counter_set: str = ""
    counters: dict[str, Counter] = msgspec.field(default_factory=dict)


class DeviceTaint(Struct, frozen=True):
    """DeviceTaint."""

    key: str = ""
    value: str = ""
    effect: str = ""


class Device(Struct, frozen=True):
    """Device of a ResourceSlice. The node fields are set only in a slice with `per_device_node_selection`."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] = msgspec.field(default_factory=dict)
    capacity: dict[str, DeviceCapacity] = msgspec.field(default_factory=dict)
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[DeviceTaint, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool = False


class ResourcePool(Struct, frozen=True):
    """ResourcePool: only slices of the highest `generation` count; `resource_slice_count` is their number."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class ResourceSliceSpec(Struct, frozen=True):
    """ResourceSliceSpec."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Struct, frozen=True):
    """ResourceSlice: some devices of a driver's pool."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec = ResourceSliceSpec()


class CapacityRequirements(Struct, frozen=True):
    """CapacityRequirements: the amounts of a device's capacity that a request needs, as written."""

    requests: dict[str, str | int | float] = msgspec.field(default_factory=dict)


class ExactDeviceRequest(Struct, frozen=True):
    """ExactDeviceRequest, or DeviceSubRequest, which has a `name` in addition and no `admin_access`."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool = False
    tolerations: tuple[Toleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceRequest(Struct, frozen=True):
    """DeviceRequest: either `exactly`, or the subrequests of `first_available`, the preferred one first."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[ExactDeviceRequest, ...] = ()


class DeviceConstraint(Struct, frozen=True):
    """DeviceConstraint: all devices of `requests` (empty: of all requests) have equal or distinct attribute values."""

    requests: tuple[str, ...] = ()
    match_attribute: str = ""
    distinct_attribute: str = ""


class DeviceClaim(Struct, frozen=True):
    """DeviceClaim: the requests of a claim, which are met together. `config`: parameters for drivers."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[dict[str, Any], ...] = ()


class ResourceClaimSpec(Struct, frozen=True):
    """ResourceClaimSpec."""

    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(Struct, frozen=True):
    """DeviceRequestAllocationResult: a device that is allocated to a request of a claim.

    `consumed_capacity`: for a device that several claims share, what this claim takes of each capacity.
    """

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool = False
    share_id: str = msgspec.field(default="", name="shareID")
    consumed_capacity: dict[str, str | int | float] = msgspec.field(default_factory=dict)


class DeviceAllocationResult(Struct, frozen=True):
    """DeviceAllocationResult, without the configuration of the drivers."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()


class AllocationResult(Struct, frozen=True):
    """AllocationResult. `node_selector`: the nodes on which the devices are usable; None: on every node."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None


class ResourceClaimConsumerReference(Struct, frozen=True):
    """ResourceClaimConsumerReference: an object, nearly always a pod, that may use the claim."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimStatus(Struct, frozen=True):
    """ResourceClaimStatus."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()


class ResourceClaim(Struct, frozen=True):
    """ResourceClaim."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


class ResourceClaimTemplateSpec(Struct, frozen=True):
    """ResourceClaimTemplateSpec."""

    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Struct, frozen=True):
    """ResourceClaimTemplate: the claim that is created for each pod that names the template."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


class DeviceTaintSelector(Struct, frozen=True):
    """DeviceTaintSelector: the devices that a DeviceTaintRule taints. An absent field selects every value."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Struct, frozen=True):
    """DeviceTaintRuleSpec. `device_selector`: None selects no device, an empty selector every device."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(Struct, frozen=True):
    """DeviceTaintRule: taints devices in addition to the taints in their slices."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()


def claim_names(resource_claims: tuple[dict[str, Any], ...]) -> list[tuple[str, str, str]]:
    """Return the entries of a pod's `spec.resourceClaims`, each as the entry's name, claim name and template name.

    An entry has either a claim name or a template name; the other one is "".
    """
    return [
        (
            str(each.get("name") or ""),
            str(each.get("resourceClaimName") or ""),
            str(each.get("resourceClaimTemplateName") or ""),
        )
        for each in resource_claims
    ]
