"""The devices that gangs use of their queue's quotas, as Kueue counts them (`resources.deviceClassMappings`).

n1: 8 devices      n2: 8 devices      each node: 64 cpu, flavor `any`

ClusterQueue pool: cpu 64, whole-gpus 8, shared-gpus 2, example.com/gpu 4
DeviceClass gpu.example.com -> whole-gpus      shared-1, shared-2 -> shared-gpus      other: not mapped
"""

from dataclasses import replace
from typing import Any

import device_scenes as devices
import pytest
import scenes
import yaml
from msgspec import structs

from cluster.devices.extended_resources import ClassRequest, Conversion, conversion_of, converted, template_of
from gangs.quota_model import DeviceQuotas
from kube.objects import Container, ObjectMeta, Pod, PodSpec, ResourceRequirements
from planning.decision import Decision, Outcome
from planning.devices.charges import charge_of
from planning.dry_run import dry_run

KUEUE = "kueue.x-k8s.io"
MAPPINGS = [
    {"name": "whole-gpus", "deviceClassNames": [devices.DRIVER]},
    {"name": "shared-gpus", "deviceClassNames": ["shared-1", "shared-2"]},
]
QUOTAS = {"cpu": "64", "whole-gpus": "8", "shared-gpus": "2", "example.com/gpu": "4"}
CLASSES = [devices.device_class(each) for each in (devices.DRIVER, "shared-1", "shared-2", "other")]


def configuration(mappings: Any = MAPPINGS, text: str = "") -> scenes.Manifest:
    """The ConfigMap with Kueue's Configuration."""
    content = {"kind": "Configuration", "resources": {"deviceClassMappings": mappings}}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kueue-manager-config", "namespace": "kueue-system"},
        "data": {"controller_manager_config.yaml": text or yaml.safe_dump(content)},
    }


def queues(quotas: dict[str, str] = QUOTAS) -> list[scenes.Manifest]:
    """A LocalQueue of a ClusterQueue with one flavor."""
    resources = [{"name": name, "nominalQuota": amount} for name, amount in quotas.items()]
    flavors = [{"name": "any", "resources": resources}]
    specs: dict[str, Any] = {
        "ResourceFlavor": {"any": {}},
        "ClusterQueue": {
            "pool": {
                "namespaceSelector": {},
                "resourceGroups": [{"coveredResources": list(quotas), "flavors": flavors}],
            }
        },
    }
    found = [
        {"apiVersion": f"{KUEUE}/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        for kind, named in specs.items()
        for name, spec in named.items()
    ]
    local = {"name": "q", "namespace": "default"}
    spec = {"clusterQueue": "pool"}
    return [*found, {"apiVersion": f"{KUEUE}/v1beta1", "kind": "LocalQueue", "metadata": local, "spec": spec}]


def cluster() -> list[scenes.Manifest]:
    nodes = scenes.nodes("r1: n1 n2", ["rack"])
    for each in nodes:
        each["status"]["allocatable"]["cpu"] = "64"
    return [*nodes, *(devices.resource_slice(name, 8) for name in ("n1", "n2")), *CLASSES]


def job(size: int, limits: dict[str, str] | None = None, **spec: Any) -> scenes.Manifest:
    """A Job of the queue."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}, "limits": limits or {}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "llm", "namespace": "default", "labels": {f"{KUEUE}/queue-name": "q"}},
        "spec": {
            "parallelism": size,
            "completions": size,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container], **spec}},
        },
    }


def decided(*parts: Any) -> Decision:
    run = dry_run(scenes.documents(cluster(), *parts))
    assert not run.mistakes, run.mistakes
    (decision,) = run.decisions
    return decision


def short(resource: str, needed: int, left: int) -> str:
    """The message about a quota that is too small for ever."""
    return f"needs {needed} {resource}, and flavor any of ClusterQueue pool never has more than {left}"


ONE, TWO = devices.request(), devices.request(count=2)
SHARED = (devices.request("a", 1, "shared-1"), devices.request("b", 1, "shared-2"))
ALTERNATIVES: list[scenes.Manifest] = [
    {"name": "a", "deviceClassName": "shared-1", "count": 1},
    {"name": "b", "deviceClassName": "shared-2", "count": 1},
]
FIRST: scenes.Manifest = {"name": "gpu", "firstAvailable": ALTERNATIVES}


@pytest.mark.parametrize(
    ("requests", "fits", "message"),
    [
        ([ONE], 8, short("whole-gpus", 9, 8)),
        ([TWO], 4, short("whole-gpus", 10, 8)),
        ([ONE, devices.request("second")], 4, short("whole-gpus", 10, 8)),
        ([devices.request("gpu", 1, devices.DRIVER, "true")], 8, short("whole-gpus", 9, 8)),
        (list(SHARED), 1, short("shared-gpus", 4, 2)),
        ([FIRST], 2, short("shared-gpus", 3, 2)),
        ([devices.request("seen", adminAccess=True)], 9, ""),
    ],
    ids=[
        "one",
        "two",
        "two requests",
        "a selector",
        "two classes of one resource",
        "alternatives alike",
        "adminAccess",
    ],
)
def test_each_request_counts_with_its_devices(requests: list[scenes.Manifest], fits: int, message: str) -> None:
    """The largest Job that the quota admits, and the message for a pod more."""
    parts = configuration(), queues(), devices.template(*requests)
    assert decided(*parts, job(fits, **devices.of_template())).outcome is Outcome.PLACED
    if message:
        assert message in decided(*parts, job(fits + 1, **devices.of_template())).message


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (
            devices.request("gpu", 1, "other"),
            (
                "waits for DeviceClass other in resources.deviceClassMappings of ConfigMap "
                "kueue-system/kueue-manager-config"
            ),
        ),
        (
            {"name": "gpu", "exactly": {"deviceClassName": devices.DRIVER, "allocationMode": "All"}},
            'waits for a number of devices in the request "gpu", because Kueue does not count All',
        ),
        (
            {"name": "gpu", "firstAvailable": [{**ALTERNATIVES[0], "count": 2}, ALTERNATIVES[1]]},
            (
                'waits for alternatives of one number and one resource in the request "gpu", because Kueue counts no '
                "others"
            ),
        ),
    ],
    ids=["a class without a mapping", "all devices", "alternatives of several numbers"],
)
def test_what_kueue_does_not_count_is_not_planned(request_: scenes.Manifest, message: str) -> None:
    parts = configuration(), queues(), devices.template(request_)
    assert decided(*parts, job(2, **devices.of_template())).message == message


def test_a_claim_that_pods_name_is_not_counted() -> None:
    entry: dict[str, Any] = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]}
    decision = decided(configuration(), queues(), devices.claim("mine"), job(1, **entry))
    assert decision.message == (
        "waits for ResourceClaim mine to be replaced by a template, because Kueue counts no named claims"
    )


def test_a_resource_without_quota_is_named() -> None:
    decision = decided(configuration(), queues({"cpu": "64"}), devices.template(), job(2, **devices.of_template()))
    assert decision.message == "waits for ClusterQueue pool to have a quota for whole-gpus"


@pytest.mark.parametrize(
    ("provider", "fits", "message"),
    [(devices.DRIVER, 8, short("whole-gpus", 9, 8)), ("other", 4, short("example.com/gpu", 5, 4))],
    ids=["a mapped class", "a class without a mapping"],
)
def test_an_extended_resource_counts_as_its_class_is_mapped(provider: str, fits: int, message: str) -> None:
    provided = devices.device_class(provider)
    provided["spec"]["extendedResourceName"] = "example.com/gpu"
    asking = {"example.com/gpu": "1"}
    others = [each for each in CLASSES if each["metadata"]["name"] != provider]
    nodes = [each for each in cluster() if each not in CLASSES]

    def of(size: int) -> Decision:
        run = dry_run(scenes.documents(nodes, others, provided, configuration(), queues(), job(size, asking)))
        assert not run.mistakes
        return run.decisions[0]

    assert of(fits).outcome is Outcome.PLACED
    assert message in of(fits + 1).message


def test_a_forged_conversion_counts_with_the_devices_of_its_claim() -> None:
    """A user can write the annotation and the claim's entry, in order to use devices beside the quota."""
    provided = devices.device_class("free")
    provided["spec"]["extendedResourceName"] = "example.com/free"
    snapshot = dry_run(scenes.documents(cluster(), provided)).snapshot
    quotas = DeviceQuotas("Configuration", {devices.DRIVER: "whole-gpus"})
    spec = PodSpec(containers=(Container(name="c"),))
    asking = Pod(metadata=ObjectMeta(name="a", namespace="default"), spec=spec)
    real = ClassRequest("container-0-request-0", devices.DRIVER, 2)
    for amounts in ({}, {"c": {"example.com/free": 2}}, {"c": {"example.com/gpu": 1}}):
        pod = converted(asking, Conversion((real,), {}, amounts))
        assert charge_of(pod, quotas, snapshot).amounts.get("whole-gpus") == 2
    negative = converted(asking, Conversion((real,), {}, {"c": {"cpu": -1}}))
    assert charge_of(negative, quotas, snapshot).amounts == {"pods": 1}  # it waits for its template
    bare = structs.replace(pod, metadata=asking.metadata)
    template = template_of(pod)
    assert template is not None
    assert snapshot.devices is not None
    there = replace(snapshot.devices, templates={template.key: template})
    assert charge_of(bare, quotas, replace(snapshot, devices=there)).amounts.get("whole-gpus") == 2


def test_a_template_of_another_that_has_the_name_of_the_conversion_counts_itself() -> None:
    provided = devices.device_class()
    provided["spec"]["extendedResourceName"] = "example.com/gpu"
    others = [each for each in cluster() if each["metadata"]["name"] != devices.DRIVER]
    snapshot = dry_run(scenes.documents(others, provided)).snapshot
    quotas = DeviceQuotas("Configuration", {devices.DRIVER: "whole-gpus"})
    container = Container(name="c", resources=ResourceRequirements(limits={"example.com/gpu": "1"}))
    asking = Pod(metadata=ObjectMeta(name="a", namespace="default"), spec=PodSpec(containers=(container,)))
    conversion = conversion_of(asking.spec, {"example.com/gpu": devices.DRIVER})
    assert conversion is not None
    assert snapshot.devices is not None
    pod = converted(asking, conversion)
    assert charge_of(pod, quotas, snapshot).amounts.get("whole-gpus") == 1
    entry = {"name": "phalanx-extended-resources", "resourceClaimTemplateName": conversion.template}
    own = structs.replace(asking, spec=structs.replace(asking.spec, resource_claims=(entry,)))
    both = converted(own, conversion)  # the user's own claim from the same template counts, too
    assert len({each["name"] for each in both.spec.resource_claims}) == 2
    assert charge_of(both, quotas, snapshot).amounts.get("whole-gpus") == 2
    larger = template_of(converted(asking, replace(conversion, requests=(conversion.requests[0]._replace(number=4),))))
    assert larger is not None
    there = replace(snapshot.devices, templates={f"default/{conversion.template}": larger})
    assert charge_of(pod, quotas, replace(snapshot, devices=there)).amounts["whole-gpus"] >= 4


def test_without_mappings_no_device_counts() -> None:
    parts = queues(), devices.template(), job(9, **devices.of_template())
    for more in ([], [configuration([])]):
        assert decided(*more, *parts).outcome is Outcome.PLACED


def test_devices_of_running_gangs_are_used() -> None:
    """A running Job of five pods leaves three of eight devices."""
    running = job(5, **devices.of_template())
    running["metadata"]["name"], running["metadata"]["uid"] = "old", "old"
    running["status"] = {"active": 5}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "old", "uid": "old", "controller": True}
    pods, claims = [], []
    for at in range(5):
        name = f"old-{at}"
        claims.append(devices.claim(f"{name}-gpu", devices=[("n1", f"gpu-{at}")], pods=[name]))
        pod = scenes.running(name, "n1", cpu=1, **devices.of_template())
        pod["metadata"] |= {
            "ownerReferences": [owner],
            "labels": {
                "batch.kubernetes.io/job-name": "old",
                f"{KUEUE}/queue-name": "q",
                "phalanx.dev/dialect": "kueue",
            },
            "uid": name,
        }
        pod.setdefault("status", {})["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]
        pods.append(pod)
    objects = [configuration(), *queues(), devices.template(), running, *pods, *claims]
    run = dry_run(scenes.documents(cluster(), objects, job(4, **devices.of_template())))
    messages = {decision.key.name: decision.message for decision in run.decisions}
    assert "has 3 of 8 left, 5 used by gang default/old" in messages["llm"]


@pytest.mark.parametrize(
    ("wrong", "mistake"),
    [
        (configuration([*MAPPINGS, {"name": "twice", "deviceClassNames": ["shared-1"]}]), '"shared-1" is mapped to'),
        (configuration([{"name": "gpus"}]), "deviceClassNames"),
        (configuration(text="resources: [1"), "cannot be read as YAML"),
    ],
    ids=["a class twice", "a missing field", "no YAML"],
)
def test_a_faulty_configuration_is_refused(wrong: scenes.Manifest, mistake: str) -> None:
    run = dry_run(scenes.documents(cluster(), wrong, queues(), devices.template(), job(1, **devices.of_template())))
    assert any(mistake in str(each) for each in (*run.mistakes, *run.warnings))


def test_a_mapping_by_counters_is_named_and_its_gangs_wait() -> None:
    """Kueue counts partitions by counters, and shared devices by capacity. Phalanx does not."""
    mapping = {**MAPPINGS[0], "sources": [{"counter": {"name": "memory"}}]}
    run = dry_run(
        scenes.documents(
            cluster(), configuration([mapping]), queues(), devices.template(), job(1, **devices.of_template())
        )
    )
    assert run.decisions[0].message == (
        f"waits for a mapping of DeviceClass {devices.DRIVER} that Phalanx counts, without "
        "data[controller_manager_config.yaml].resources.deviceClassMappings[0].sources"
    )
    assert any("is not counted: gangs that claim devices of DeviceClass" in str(each) for each in run.warnings)
