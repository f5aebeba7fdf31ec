"""ComputeDomains of NVIDIA's driver: channels of memory (IMEX) that pods on several GB200 nodes share.

The driver's controller creates a ResourceClaimTemplate for each ComputeDomain. Each pod of a workload that uses the
ComputeDomain claims a channel by this template. When such a pod is bound, the driver labels its node, and a DaemonSet
then starts one more pod on this node. Sources: documentation of the NVIDIA DRA driver for GPUs, "ComputeDomains"; its
API group `resource.nvidia.com/v1beta1`.
"""

from kube.devices import (
    Device,
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)
from kube.objects import ObjectMeta, Struct

GROUP, KIND = "resource.nvidia.com", "ComputeDomain"
DRIVER = "compute-domain.nvidia.com"
CHANNEL_CLASS = "compute-domain-default-channel.nvidia.com"
"""The DeviceClass of channels. It selects channel 0 of a node, so that a node serves one claim."""
_TYPE, _CHANNEL = "type", "channel"


class TemplateName(Struct, frozen=True):
    """The ResourceClaimTemplate that the driver creates: its name, in the ComputeDomain's namespace."""

    name: str = ""


class Channel(Struct, frozen=True):
    """`spec.channel` of a ComputeDomain."""

    resource_claim_template: TemplateName = TemplateName()


class ComputeDomainSpec(Struct, frozen=True):
    """`spec` of a ComputeDomain, with the only field that Phalanx reads."""

    channel: Channel = Channel()


class ComputeDomain(Struct, frozen=True):
    """A ComputeDomain. The nodes of the pods that claim its channel share memory."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ComputeDomainSpec = ComputeDomainSpec()


def template_of(domain: ComputeDomain) -> ResourceClaimTemplate:
    """Return the template that the driver creates for a ComputeDomain. Its configuration for the driver is left out."""
    request = DeviceRequest(name=_CHANNEL, exactly=ExactDeviceRequest(device_class_name=CHANNEL_CLASS))
    name = domain.spec.channel.resource_claim_template.name
    spec = ResourceClaimSpec(devices=DeviceClaim(requests=(request,)))
    return ResourceClaimTemplate(
        metadata=ObjectMeta(name=name, namespace=domain.metadata.namespace), spec=ResourceClaimTemplateSpec(spec=spec)
    )


def is_channel(driver: str, device: Device) -> bool:
    """Return whether a device is a channel of ComputeDomains."""
    kind = device.attributes.get(_TYPE)
    return driver == DRIVER and kind is not None and kind.string == _CHANNEL
