"""The doctor's findings about devices: one fault of pools, classes, claims or levels in each test."""

from collections.abc import Sequence
from typing import Any

import device_scenes as scenes
import msgspec
import pytest

from cluster.devices.claims import DeviceObjects, Devices, devices_of
from kube.devices import DeviceClass, ResourceClaimTemplate, ResourceSlice
from kube.objects import Pod
from planning.doctor.devices import needs, pools
from planning.doctor.finding import Finding, Severity

DRIVER = scenes.DRIVER


def resource_slice(
    node: str, devices: int | Sequence[Any] = 2, *, generation: int = 1, count: int = 1
) -> ResourceSlice:
    """A slice of the node's pool."""
    manifest = scenes.resource_slice(node, devices)
    manifest["spec"]["pool"] |= {"generation": generation, "resourceSliceCount": count}
    return msgspec.convert(manifest, ResourceSlice)


def test_whole_pools_are_well() -> None:
    assert list(pools([resource_slice("n1"), resource_slice("n2", 3)])) == [
        Finding(Severity.OK, f"Driver {DRIVER}", "5 devices in 2 pools")
    ]


def test_a_pool_that_lacks_slices_offers_no_devices() -> None:
    (found,) = pools([resource_slice("n1"), resource_slice("n2", count=3), resource_slice("n2", count=3)])
    assert (found.severity, found.subject) == (Severity.ERROR, f"Driver {DRIVER}")
    assert found.text == "has 1 pool without all slices, so no device there can be allocated: n2 (2 of 3 slices)"


def test_slices_of_an_older_generation_are_stale_and_do_not_count_as_slices_of_the_pool() -> None:
    every = [resource_slice(f"n{number}", generation=old) for number in range(7) for old in (1, 2)]
    (found,) = pools(every)
    assert found.severity is Severity.WARNING
    assert found.text == (
        "has 7 pools with slices of older generations, which do not count: n0, n1, n2, n3, n4 and 2 more"
    )
    missing, stale = pools([resource_slice("n1", generation=1, count=2), resource_slice("n1", generation=2, count=2)])
    assert "n1 (1 of 2 slices)" in missing.text
    assert "older generations" in stale.text


def cluster(*classes: Any, slices: Sequence[ResourceSlice] = (), template: Any = None) -> Devices:
    """The devices of a cluster with these DeviceClasses, and a template named `one`."""
    templates = [msgspec.convert(template, ResourceClaimTemplate)] if template else []
    return devices_of(DeviceObjects(slices, [msgspec.convert(each, DeviceClass) for each in classes], (), templates))


def claiming(name: str) -> Pod:
    """A pod with a claim of the template `one`."""
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}
    return msgspec.convert({"metadata": {"name": name, "namespace": "default"}, "spec": spec}, Pod)


HAS_MODEL = f'device.attributes["{DRIVER}"].model == "h100"'
H100 = resource_slice("n1", [scenes.device("gpu-0", attributes={"model": "h100"})])
PLAIN = resource_slice("n2", [scenes.device("gpu-0")])


def test_a_cluster_whose_classes_match_devices_has_no_finding() -> None:
    assert not list(needs(cluster(scenes.device_class("h100", HAS_MODEL), slices=[H100]), [], []))


@pytest.mark.parametrize(
    ("selector", "slices", "severity", "text"),
    [
        (HAS_MODEL, [H100, PLAIN], Severity.ERROR, f"has a selector that fails for devices of {DRIVER}: "),
        (HAS_MODEL.replace("h100", "a100"), [H100], Severity.WARNING, "matches no device of this cluster"),
        ("device.attribute", [H100], Severity.ERROR, "has a selector that Phalanx does not understand: "),
    ],
)
def test_a_class_whose_selector_fails_or_matches_nothing(
    selector: str, slices: list[ResourceSlice], severity: Severity, text: str
) -> None:
    (found,) = needs(cluster(scenes.device_class("gpu", selector), slices=slices), [], [])
    assert (found.severity, found.subject) == (severity, "DeviceClass gpu")
    assert found.text.startswith(text)
    if "fails" in text:
        assert f"for a device of driver {DRIVER}" in found.text


def test_a_request_that_matches_nothing_is_reported_once_for_all_pods_of_the_template() -> None:
    wanted = scenes.template(scenes.request("gpu", 1, "gpu", HAS_MODEL.replace("h100", "b200")))
    devices = cluster(scenes.device_class("gpu"), slices=[H100], template=wanted)
    (found,) = needs(devices, [claiming(f"llm-{each}") for each in range(3)], [])
    assert found.subject == "Pods default/llm-0..2"
    assert found.text == f'request "gpu" (DeviceClass gpu) matches no device of this cluster (drivers: {DRIVER})'


def test_a_constraint_on_an_attribute_that_no_device_has() -> None:
    tied = [{"matchAttribute": f"{DRIVER}/nvlinkDomain"}]
    wanted = scenes.template(scenes.request("gpu", 2, "gpu"), constraints=tied)
    (found,) = needs(cluster(scenes.device_class("gpu"), slices=[H100], template=wanted), [claiming("llm-0")], [])
    assert found.subject == "Pod default/llm-0"
    assert found.text == (
        f'request "gpu" has a constraint on attribute {DRIVER}/nvlinkDomain, which no device of {DRIVER} has'
    )


def test_a_level_of_a_topology_whose_device_attribute_no_device_has() -> None:
    def topology(attribute: str) -> Any:
        levels = [{"name": "rack", "nodeLabel": "rack"}, {"name": "nvlink", "deviceAttribute": attribute}]
        return {
            "apiVersion": "phalanx.dev/v1alpha1",
            "kind": "Topology",
            "metadata": {"name": "dc"},
            "spec": {"levels": levels},
        }

    devices = cluster(slices=[H100])
    assert not list(needs(devices, [], [topology(f"{DRIVER}/model")]))
    (found,) = needs(devices, [], [topology(f"{DRIVER}/domain")])
    assert (found.severity, found.subject) == (Severity.WARNING, "Topology dc")
    assert found.text == f'level "nvlink" has device attribute {DRIVER}/domain, which no device has'
    assert found.remedy.endswith(f"known: {DRIVER}/model")
