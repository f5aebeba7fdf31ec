"""The specs that drivers and Kubernetes' documentation publish, as gangs: the devices that `phalanx solve` gives them.

The files in `published_devices` name their sources. Comments and commands of containers are left out of them, and
requests have the form of resource.k8s.io/v1. Each file is one gang here: its pods get the label of a Gang, or its
Deployment the annotation.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import scenes
import yaml

from planning.decision import Decision, Outcome
from planning.dry_run import DryRun

Manifest = scenes.Manifest
FOLDER = Path(__file__).parent / "published_devices"
EXAMPLE, TODAY, NVIDIA = "gpu.example.com", "gpu.dra-example-driver.sigs.k8s.io", "gpu.nvidia.com"


def published(name: str) -> list[Manifest]:
    """The objects of a published file."""
    return [each for each in yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text()) if each]


def as_gang(objects: Sequence[Manifest]) -> list[Manifest]:
    """The objects, with their pods or their Deployment as one gang."""
    pods = [each for each in objects if each["kind"] == "Pod"]
    found = []
    for each in objects:
        if each["kind"] == "Pod":
            found.append(scenes.labelled(each, **{"phalanx.dev/gang": "spec"}))
        elif each["kind"] in ("Deployment", "Job"):
            metadata = {**each["metadata"], "annotations": {"phalanx.dev/gang": "true"}}
            found.append({**each, "metadata": metadata})
        else:
            found.append(each)
    if pods:
        gang = scenes.gang("spec", minMember=len(pods))
        namespace = {key: value for key, value in pods[0]["metadata"].items() if key == "namespace"}
        found.append({**gang, "metadata": {**gang["metadata"], **namespace}})
    return found


def solved(*objects: Sequence[Manifest]) -> DryRun:
    """The dry run of these objects, on the nodes that their slices name."""
    every = [each for some in objects for each in some]
    names = dict.fromkeys(each["spec"]["nodeName"] for each in every if "nodeName" in each["spec"])
    nodes = [scenes.node(name, {"example.com/rack": "r"}, {"cpu": "64"}) for name in names]
    return scenes.solved(scenes.topology(["rack"]), nodes, every)


def got(decision: Decision) -> list[str]:
    """The devices of the members: each as `request device`, with what it consumes."""
    return [
        " ".join([each.request, each.device.device, *(f"{name}={amount}" for name, amount in each.consumed)])
        for assignment in decision.assignments
        for claim in assignment.devices
        for each in claim.devices
    ]


def slice_of(driver: str, devices: Sequence[Manifest], node: str = "n1", **spec: Any) -> Manifest:
    """The slice of a node's devices of a driver."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{driver}"},
        "spec": {
            "driver": driver,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": list(devices),
            **(spec or {"nodeName": node}),
        },
    }


def device_class(name: str, expression: str) -> Manifest:
    """A DeviceClass with one selector."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def example(driver: str = EXAMPLE) -> list[Manifest]:
    """The example driver's published slice and class."""
    return published("example-driver" if driver == EXAMPLE else "example-driver-of-today")


def changed(change: Callable[[Manifest], Any], driver: str = EXAMPLE) -> list[Manifest]:
    """The example driver's published slice, each of its devices changed by an option of the driver."""
    found = example(driver)
    for each in found:
        for device in each["spec"].get("devices", ()):
            change(device)
    return found


def shareable(device: Manifest) -> None:
    """Change a device as the option gpuAllowMultipleAllocations does."""
    device["allowMultipleAllocations"] = True
    device["capacity"]["compute"] = {"value": "100"}


def partitions(driver: str = EXAMPLE) -> list[Manifest]:
    """Four partitions of a GPU, each a quarter of its memory, as the option gpuPartitions publishes them."""
    consumed = [{"counterSet": "gpu-0", "counters": {"memory": {"value": "20Gi"}}}]
    devices = [{"name": f"gpu-0-partition-{number}", "consumesCounters": consumed} for number in range(4)]
    counters = [{"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}]
    found = slice_of(driver, devices, nodeName="n1", sharedCounters=counters)
    return [found, device_class(driver, f"device.driver == '{driver}'")]


def shareable_partitions() -> list[Manifest]:
    """These partitions, each for several claims."""
    found = partitions()
    for device in found[0]["spec"]["devices"]:
        device["allowMultipleAllocations"] = True
        device["capacity"] = {"memory": {"value": "20Gi"}, "compute": {"value": "25"}}
    return found


def nics() -> list[Manifest]:
    """One network card of the example driver, with 100G in each direction."""
    bandwidth = {"value": "100G", "requestPolicy": {"default": "1G", "validRange": {"min": "1G", "step": "1G"}}}
    device = {
        "name": "nic-0",
        "allowMultipleAllocations": True,
        "capacity": {"ingressBandwidth": bandwidth, "egressBandwidth": bandwidth},
    }
    return [
        slice_of("net.example.com", [device]),
        device_class("net.example.com", "device.driver == 'net.example.com'"),
    ]


def nvidia(count: int = 8, **more: Any) -> list[Manifest]:
    """GPUs of one node as NVIDIA's driver publishes them, and the chart's DeviceClasses."""
    devices = [gpu(number, **more) for number in range(count)]
    return [slice_of(NVIDIA, devices), *nvidia_classes()]


def nvidia_classes() -> list[Manifest]:
    """The DeviceClasses of NVIDIA's chart."""
    kinds = {NVIDIA: "gpu", "mig.nvidia.com": "mig", "imex.nvidia.com": "imex-channel"}
    return [
        device_class(name, f"device.driver == '{NVIDIA}' && device.attributes['{NVIDIA}'].type == '{kind}'")
        for name, kind in kinds.items()
    ]


def gpu(number: int, **more: Any) -> Manifest:
    """A whole GPU of NVIDIA's driver."""
    return {
        "name": f"gpu-{number}",
        "attributes": {
            "type": {"string": "gpu"},
            "index": {"int": number},
            "uuid": {"string": f"GPU-{number}"},
            "productName": {"string": "NVIDIA A100-SXM4-40GB"},
            "brand": {"string": "Nvidia"},
            "architecture": {"string": "Ampere"},
            "cudaComputeCapability": {"version": "8.0.0"},
            "driverVersion": {"version": "550.54.15"},
        },
        "capacity": {"memory": {"value": "40Gi"}},
        **more,
    }


def with_migs() -> list[Manifest]:
    """Four GPUs of NVIDIA's driver, each cut into four MIG devices."""
    profiles = ("1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb")
    devices = [
        {
            "name": f"gpu-{parent}-mig-{place}",
            "attributes": {
                "type": {"string": "mig"},
                "profile": {"string": profile},
                "parentUUID": {"string": f"GPU-{parent}"},
            },
        }
        for parent in range(4)
        for place, profile in enumerate(profiles)
    ]
    return [slice_of(NVIDIA, devices), *nvidia_classes()]


def with_channels() -> list[Manifest]:
    """GPUs of two nodes, and IMEX channels that all nodes of a rack can use."""
    of_rack = {"key": "example.com/rack", "operator": "In", "values": ["r"]}
    rack = {"nodeSelectorTerms": [{"matchExpressions": [of_rack]}]}
    channels = [
        {"name": f"imex-channel-{place}", "attributes": {"type": {"string": "imex-channel"}}} for place in range(4)
    ]
    return [
        *nvidia(),
        slice_of(NVIDIA, [gpu(number) for number in range(8)], "n2"),
        slice_of(NVIDIA, channels, "imex", nodeSelector=rack),
    ]


def consumable(policy: Manifest, name: str = "memory") -> list[Manifest]:
    """One GPU of NVIDIA's driver with the option consumable-shares."""
    value = "40Gi" if name == "memory" else "4"
    return nvidia(1, allowMultipleAllocations=True, capacity={name: {"value": value, "requestPolicy": policy}})


def cats() -> list[Manifest]:
    """The cats of the documentation's fictional driver: two of three are large and black."""
    looks = (("black", "small"), ("black", "large"), ("black", "large"))
    devices = [
        {"name": f"cat-{place}", "attributes": {"color": {"string": color}, "size": {"string": size}}}
        for place, (color, size) in enumerate(looks)
    ]
    return [slice_of("resource-driver.example.com", devices)]


FOUR_MIGS = ["mig-1g-5gb-0", "mig-1g-5gb-1", "mig-2g-10gb", "mig-3g-20gb"]
PUBLISHED: dict[str, tuple[Callable[[], list[Manifest]], list[str]]] = {
    "basic-multiple-requests": (example, ["gpu-1 gpu-0", "gpu-2 gpu-1"]),
    "basic-resourceclaim-opaque-config": (example, ["ts-gpu gpu-0", "sp-gpu gpu-1"]),
    "basic-shared-claim-across-pods": (example, ["gpu gpu-0"]),
    "admin-access": (example, [f"admin-gpu gpu-{place}" for place in range(8)]),
    "cel-selector": (partial(example, TODAY), ["gpu gpu-0"]),
    "prioritized-alternatives": (partial(example, TODAY), ["gpu/older-gpu gpu-0", "gpu/latest-gpu gpu-1"]),
    "gpu-allow-multiple-allocations": (
        partial(changed, shareable, TODAY),
        ["gpu gpu-0 compute=20 memory=16Gi"] * 2,
    ),
    "gpu-allow-multiple-allocations-partitionable": (
        shareable_partitions,
        ["gpu gpu-0-partition-0 compute=10 memory=8Gi"] * 2,
    ),
    "net-consumable-capacity": (
        nics,
        [
            "nic nic-0 egressBandwidth=5000000000 ingressBandwidth=10000000000",
            "nic nic-0 egressBandwidth=5000000000 ingressBandwidth=5000000000",
        ],
    ),
    "partitionable-devices": (partitions, ["gpu-partition gpu-0-partition-0", "gpu-partition gpu-0-partition-1"]),
    "nvidia-gpu-test1": (nvidia, ["gpu gpu-0", "gpu gpu-1"]),
    "nvidia-gpu-test2": (nvidia, ["gpu gpu-0"]),
    "nvidia-gpu-test3": (nvidia, ["gpu gpu-0"]),
    "nvidia-gpu-test4": (
        with_migs,
        [f"{title} gpu-{pod}-mig-{place}" for pod in range(4) for place, title in enumerate(FOUR_MIGS)],
    ),
    "nvidia-gpu-test5": (nvidia, ["ts-gpu gpu-0", "mps-gpu gpu-1"]),
    "nvidia-gpu-test6": (nvidia, [f"gpu gpu-{index}" for index in (0, 2, 4, 6)]),
    "nvidia-gpu-test7": (nvidia, ["gpu gpu-0", "gpu gpu-1"]),
    "nvidia-gpu-test-count": (nvidia, ["gpu gpu-0", "gpu gpu-1"]),
    "nvidia-gpu-test-mig": (
        with_migs,
        [f"mig-1g-5gb gpu-{parent}-mig-{place}" for parent in (0, 1) for place in (0, 1)],
    ),
    "nvidia-memory-sharing": (
        partial(consumable, {"default": "40Gi", "validRange": {"min": "1Mi", "step": "1Mi"}}),
        ["gpu gpu-0 memory=4Gi"] * 2,
    ),
    "nvidia-integer-sharing": (partial(consumable, {"default": "1"}, "shares"), ["gpu gpu-0 shares=1"] * 4),
    "nvidia-unlimited-sharing": (partial(consumable, {"default": "0"}), ["gpu gpu-0 memory=0"] * 2),
    "docs-cats": (cats, ["req-0 cat-1", "req-0 cat-2"]),
}
"""By file: the slices and classes beside it, and the devices that its pods get."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_pods_of_a_published_spec_get_their_devices(name: str) -> None:
    beside, expected = PUBLISHED[name]
    run = solved(beside(), as_gang(published(name)))
    assert not run.mistakes, run.mistakes
    (decision,) = run.decisions
    assert decision.outcome is Outcome.PLACED, decision.message
    assert got(decision) == expected


def pods_of(template: str, count: int) -> list[Manifest]:
    """A gang of pods with a claim of this template each."""
    claims: dict[str, Any] = {"resourceClaims": [{"name": "own", "resourceClaimTemplateName": template}]}
    return [scenes.gang("llm", minMember=count), *scenes.members(count, cpu=1, **claims)]


def of_namespace(objects: Sequence[Manifest]) -> list[Manifest]:
    """The objects of documentation that names no namespace, in the namespace default."""
    return [{**each, "metadata": {"namespace": "default", **each["metadata"]}} for each in objects]


@pytest.mark.parametrize(("count", "placed"), [(9, 9), (10, 10), (11, 0)])
def test_the_documented_network_card_has_room_for_ten_claims_of_1g(count: int, placed: int) -> None:
    documented = published("docs-consumable-capacity")
    beside = [device_class("resource.example.com", "device.driver == 'dra.example.com'"), documented[0]]
    run = solved(beside, of_namespace(documented[1:]), pods_of("bandwidth-claim-template", count))
    assert not run.mistakes, run.mistakes
    (decision,) = run.decisions
    assert (decision.outcome is Outcome.PLACED) is bool(placed), decision.message
    assert got(decision) == ["req-0 eth1 bandwidth=1000000000"] * placed
    assert decision.proof == ("Optimal" if placed else "Infeasible")


@pytest.mark.parametrize(("count", "placed"), [(1, 1), (2, 0)])
def test_of_the_documented_partitions_one_is_allocated_at_a_time(count: int, placed: int) -> None:
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one", "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}},
    }
    beside = [device_class("gpu", "device.driver == 'dra.example.com'"), template]
    run = solved(beside, published("docs-partitionable"), pods_of("one", count))
    assert not run.mistakes, run.mistakes
    (decision,) = run.decisions
    assert (decision.outcome is Outcome.PLACED) is bool(placed), decision.message
    assert got(decision) == ["gpu device-1"] * placed


def test_a_published_toleration_counts_and_the_pod_without_it_waits() -> None:
    objects = published("device-taint-pod-toleration")
    for pod, placed in (("pod-with-toleration", True), ("pod-without-toleration", False)):
        some = [each for each in objects if each["kind"] != "Pod" or each["metadata"]["name"] == pod]
        (decision,) = solved(example(), as_gang(some)).decisions
        assert (decision.outcome is Outcome.PLACED) is placed, decision.message


NAMED: dict[str, tuple[Callable[[], list[Manifest]], str]] = {
    "binding-conditions": (
        partial(changed, lambda each: each.update(bindingConditions=["c"], bindingFailureConditions=["f"])),
        f"devices with binding conditions ({EXAMPLE})",
    ),
    "nvidia-imex-test1": (with_channels, "devices that are not on one node (imex.nvidia.com)"),
    "docs-example-job": (
        lambda: [slice_of("driver.example.com", [])],
        "waits for DeviceClass example-device-class and ResourceClaim example-resource-claim",
    ),
}
"""By file: what is beside it, and the message that says why its gang is not planned."""


@pytest.mark.parametrize("name", NAMED)
def test_what_is_not_planned_of_a_published_spec_is_named(name: str) -> None:
    beside, text = NAMED[name]
    run = solved(beside(), as_gang(published(name)))
    assert not run.mistakes, run.mistakes
    assert run.decisions
    for decision in run.decisions:
        assert decision.outcome is Outcome.WAITING
        assert text in decision.message


REFUSED = {
    "nvidia-gpu-test1-v1beta1": "resource.k8s.io/v1beta1",
    "docs-resourceclaim": "expression",
}
"""By file: a part of the mistake that is found. The first has an old form, the second a wrong indentation."""


@pytest.mark.parametrize("name", REFUSED)
def test_the_mistake_of_a_published_file_is_named(name: str) -> None:
    run = solved(nvidia(), as_gang(published(name)))
    assert any(REFUSED[name] in str(each) for each in run.mistakes), run.mistakes
