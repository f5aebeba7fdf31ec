"""The ConfigMap with Kueue's Configuration: how quotas count devices of claims (`resources.deviceClassMappings`)."""

from typing import Any

import msgspec

from gangs.findings import Findings
from gangs.kueue import keys
from gangs.manifests import MalformedError, decode, ref_of, yaml_of
from gangs.model import Manifest
from gangs.quota_model import DeviceQuotas
from gangs.sources import Sources

AT = f"data[{keys.CONFIG_FILE}].resources.deviceClassMappings"
TITLE = f"{keys.CONFIG_KIND} {keys.CONFIG_NAMESPACE}/{keys.CONFIG_NAME}"
_KNOWN = ("name", "deviceClassNames")


class _Mapping(msgspec.Struct, frozen=True, rename="camel"):
    """One mapping: the devices of these DeviceClasses count as the resource `name`."""

    name: str
    device_class_names: tuple[str, ...]


def device_quotas(sources: Sources) -> DeviceQuotas | None:
    """Return how Kueue's Configuration counts devices; None if the ConfigMap with it does not exist or has no mappings.

    If the ConfigMap is invalid, the result says so, and gangs with devices wait until it is corrected.
    """
    manifest = sources.get("", keys.CONFIG_KIND, keys.CONFIG_NAMESPACE, keys.CONFIG_NAME)
    if manifest is None:
        return None
    findings = Findings()
    found = _read(manifest, findings)
    if findings.faults:
        return DeviceQuotas(TITLE, problem=f"{TITLE} to be corrected")
    return found


def review(sources: Sources, findings: Findings) -> None:
    """Check the ConfigMap with Kueue's Configuration, if it exists. Faults go to `findings`."""
    manifest = sources.get("", keys.CONFIG_KIND, keys.CONFIG_NAMESPACE, keys.CONFIG_NAME)
    if manifest is not None:
        _read(manifest, findings)


def _read(manifest: Manifest, findings: Findings) -> DeviceQuotas | None:
    ref = ref_of(manifest)
    try:
        written = _written(yaml_of(manifest, keys.CONFIG_FILE))
        mappings = decode(written, tuple[_Mapping, ...], ref, AT)
    except MalformedError as error:
        findings.take([error.fault])
        return None
    if not mappings:
        return None
    resources, uncounted = dict[str, str](), dict[str, str]()
    for at, (mapping, fields) in enumerate(zip(mappings, written, strict=True)):
        further = [name for name in fields if name not in _KNOWN and fields[name]]
        for name in mapping.device_class_names:
            if name in resources and not further:
                problem = f'"{name}" is mapped to {resources[name]} already'
                findings.fault(ref, f"{AT}[{at}].deviceClassNames", problem, "list each DeviceClass once")
            resources.setdefault(name, mapping.name)
            if further:
                uncounted[name] = f"{AT}[{at}].{further[0]}"
    for name, field in uncounted.items():
        findings.advise(ref, field, f"is not counted: gangs that claim devices of DeviceClass {name} wait")
    return DeviceQuotas(TITLE, resources, uncounted)


def _written(configuration: dict[str, Any]) -> Any:
    """Return `resources.deviceClassMappings` of Kueue's Configuration as it is written, possibly malformed; () if it is
    absent.
    """
    resources = configuration.get("resources") or {}
    return (resources.get("deviceClassMappings") if isinstance(resources, dict) else resources) or ()
