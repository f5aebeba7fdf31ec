"""Gangs whose pods request an extended resource of a DeviceClass, on a real control plane with both servers.

rack r0: n0 n1      rack r1: n2 n3      each node: 64 cpu, 4 devices, no allocatable of the resource
"""

from collections.abc import Iterator

import pytest
import yaml
from device_scene import GANGS, PODS, RESOURCE, TEMPLATES, DeviceScene, Object, device_scene, devices_of, gang
from kubernetes.client.exceptions import ApiException
from system_fixtures import LEASE_SECONDS, TIMEOUT_SECONDS

from cluster.api.connecting import connect
from controlplane.deployment import Deployment
from controlplane.running.stages import GOES_ON
from kube.keys import CONVERTED, PLAN, SYSTEM_NAMESPACE

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

GPU = "example.com/gpu"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeviceScene]:
    """The control plane of this file, with the webhook and a controller. The class `gpu` provides the resource."""
    with device_scene(tmp_path_factory.mktemp("audit")) as scene:
        scene.patch(f"{RESOURCE}/deviceclasses/gpu", {"spec": {"extendedResourceName": GPU}})
        forecast = ("--forecast-seconds", TIMEOUT_SECONDS - 5)
        Deployment(
            scene.plane, LEASE_SECONDS, timeout_seconds=TIMEOUT_SECONDS, webhook_options=forecast
        ).start_servers()
        yield scene
        for name in ("controller", "webhook"):
            print(f"--- {name}\n{scene.plane.program(name).tail()}")  # noqa: T201 - for the report of a failed test


@pytest.fixture
def scene(lab: DeviceScene) -> Iterator[DeviceScene]:
    """The cluster without workloads and claims."""
    yield lab
    lab.clear()


def container(devices: int) -> Object:
    return {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1"}, "limits": {GPU: str(devices)}}}


def job(name: str, size: int, devices: int) -> Object:
    """A Job that is a gang, as its user writes it."""
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container(devices)]}
    going_on = {"annotations": {GOES_ON: "true"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "annotations": {"phalanx.dev/gang": "true"}},
        "spec": {
            "parallelism": size,
            "completions": size,
            "backoffLimit": 50,
            "template": {"metadata": going_on, "spec": spec},
        },
    }


def apply(scene: DeviceScene, *objects: Object) -> tuple[str, str]:
    """`kubectl apply`; return what kubectl prints on standard output, and on standard error."""
    answer = scene.plane.kubectl_result("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))
    assert answer.returncode == 0, answer.stderr
    return answer.stdout, answer.stderr


def held(scene: DeviceScene) -> dict[str, list[tuple[str, str]]]:
    """The devices of each claim, by the pod that owns it."""
    return {each["metadata"]["ownerReferences"][0]["name"]: devices_of(each) for each in scene.claims()}


def used(scene: DeviceScene, name: str) -> dict[str, str]:
    found: dict[str, str] = (scene.ask("GET", f"{QUOTAS}/{name}").get("status") or {}).get("used") or {}
    return found


def test_a_job_starts_whole_on_its_planned_devices(scene: DeviceScene) -> None:
    """A second apply changes nothing. A recreated pod gets a claim of its own. Quotas count the devices."""
    hard = {f"requests.{GPU}": "100", "gpu.deviceclass.resource.k8s.io/devices": "100"}
    scene.ask("POST", QUOTAS, {"metadata": {"name": "gpus"}, "spec": {"hard": hard}})
    mark, manifest = scene.mark(), job("llm", 4, 2)
    try:
        _, said = apply(scene, manifest)
        assert "4 pods fit on n0..1, proven optimal" in said
        scene.wait(lambda: len(scene.bound("llm")) == 4, "the gang to be bound")
        nodes = scene.bound("llm")
        assert len(set(nodes.values())) == 2
        assert {name: {pool for pool, _ in devices} for name, devices in held(scene).items()} == {
            name: {node} for name, node in nodes.items()
        }
        assert all(PLAN in each["metadata"]["annotations"] for each in scene.claims())
        assert scene.writes("kube-scheduler", "resourceclaims", mark) == []
        assert all(GPU not in each["spec"]["containers"][0]["resources"].get("limits", {}) for each in scene.pods())
        scene.wait(lambda: used(scene, "gpus") == dict.fromkeys(hard, "8"), f"the quota: {used(scene, 'gpus')}")
        assert apply(scene, manifest) == ("job.batch/llm unchanged\n", "")
        assert scene.plane.kubectl_result("diff", "-f", "-", stdin=yaml.safe_dump(manifest)).returncode == 0

        first = min(nodes)
        scene.ask("DELETE", f"{PODS}/{first}?gracePeriodSeconds=0")
        scene.wait(
            lambda: len(scene.bound("llm")) == 4 and first not in scene.bound("llm"), "the successor to be bound"
        )
        assert {name: {pool for pool, _ in devices} for name, devices in held(scene).items()} == {
            name: {node} for name, node in scene.bound("llm").items()
        }
        assert scene.writes("kube-scheduler", "resourceclaims", mark) == []

        scene.ask("DELETE", "/apis/batch/v1/namespaces/default/jobs/llm?propagationPolicy=Background")
        scene.wait(lambda: not scene.claims(), "the claims to be gone")
        scene.wait(lambda: [name for name, _ in templates(scene)] == ["one"], "the template to be gone")
    finally:
        scene.plane.request("DELETE", f"{QUOTAS}/gpus")


def templates(scene: DeviceScene) -> list[tuple[str, str]]:
    """The name of each template, with its label."""
    items = scene.ask("GET", TEMPLATES)["items"]
    return [(each["metadata"]["name"], each["metadata"].get("labels", {}).get(CONVERTED, "")) for each in items]


def test_bare_pods_can_be_applied_again_and_a_full_quota_is_named(scene: DeviceScene) -> None:
    """A quota of 3 devices admits the claims of three pods of four: the gang stays gated until the quota is raised."""
    scene.ask("POST", QUOTAS, {"metadata": {"name": "few"}, "spec": {"hard": {f"requests.{GPU}": "3"}}})
    scene.wait(lambda: used(scene, "few"), "the quota to be counted")
    labels = {"phalanx.dev/gang": "llm"}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container(1)]}
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"llm-{at}", "labels": labels}, "spec": spec}
        for at in range(4)
    ]
    try:
        scene.ask("POST", GANGS, gang("llm", 4))
        _, said = apply(scene, *pods)
        assert "became a ResourceClaim" in said.replace("\nWarning: ", " ")
        scene.wait(lambda: len(scene.claims("llm")) == 3, "the claims that the quota admits")
        scene.wait(lambda: "ResourceClaim" in scene.status().get("message", ""), "the message about the claim")
        assert scene.bound("llm") == {}
        apply(scene, *pods)
        scene.patch(f"{QUOTAS}/few", {"spec": {"hard": {f"requests.{GPU}": "4"}}})
        scene.wait(lambda: len(scene.bound("llm")) == 4, "the gang to be bound")
        apply(scene, *pods)
        answer = scene.plane.request("PATCH", f"{PODS}/llm-0", patched(), "application/strategic-merge-patch+json")
        assert answer["reason"] == "Invalid"
    finally:
        scene.plane.request("DELETE", f"{QUOTAS}/few")


def patched() -> Object:
    """A change of the pod's resources, which the API server allows for no pod."""
    return {"spec": {"containers": [{"name": "main", "resources": {"limits": {GPU: "2"}, "requests": {GPU: "2"}}}]}}


def test_the_controller_may_create_only_templates_of_converted_members(scene: DeviceScene) -> None:
    """Its other templates are refused by the policy."""
    ours = connect(str(scene.plane.kubeconfig_for(SYSTEM_NAMESPACE, "phalanx-controller")))
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}
    template = {"metadata": {"name": "phalanx-x"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    with pytest.raises(ApiException, match="may only create templates for the extended resources"):
        ours.request("POST", TEMPLATES, body=template)
