"""A gang whose pods need devices, on the local API server: it stays gated and says why, until its user ignores that.

r1: n1, n2      r2: n3      each node holds one pod of 4 cpu
"""

from typing import Any

from controller_scene import GANGS, PODS, Scene, gang, leading, member

from kube.keys import IGNORE_CLAIMS

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
CLAIMS = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
_MERGE = "application/merge-patch+json"
IGNORING = {"metadata": {"annotations": {IGNORE_CLAIMS: "true"}}}


def condition(scene: Scene, type_: str) -> dict[str, Any]:
    """One condition of the gang."""
    found: list[dict[str, Any]] = scene.status().get("conditions") or []
    return next((each for each in found if each["type"] == type_), {})


def await_gated(scene: Scene, needs: str) -> None:
    """Wait until the status gives the reason, and see that nothing has been done."""
    scene.api.wait(lambda: scene.status().get("reason") == "ResourceClaims", "the reason")
    assert scene.status()["phase"] == "Waiting"
    assert needs in scene.status()["message"]
    assert condition(scene, "Planned")["reason"] == "ResourceClaims"
    assert condition(scene, "Complete")["status"] == "True"
    assert scene.gated("a")
    assert scene.gated("b")
    assert scene.nominated("a", "b") == ["", ""]


def test_one_member_with_claims_holds_the_gang_until_the_gang_is_annotated(scene: Scene) -> None:
    with leading(scene):
        scene.api.create(GANGS, gang())
        scene.api.create(PODS, member("a", resourceClaims=CLAIMS), member("b"))
        await_gated(scene, "stays gated: pod a has resource claims (spec.resourceClaims)")
        scene.api.ask("PATCH", f"{GANGS}/llm", IGNORING, _MERGE)
        scene.finish("a", "b")
        assert scene.status()["proof"] == "Feasible"


def test_the_annotation_counts_on_the_pods(scene: Scene) -> None:
    with leading(scene):
        scene.api.create(GANGS, gang())
        scene.api.create(PODS, member("a", resourceClaims=CLAIMS), member("b", resourceClaims=CLAIMS))
        await_gated(scene, "pods a, b have resource claims")
        scene.api.ask("PATCH", f"{PODS}/a", IGNORING, _MERGE)
        scene.api.ask("PATCH", f"{PODS}/b", IGNORING, _MERGE)
        scene.finish("a", "b")


def await_gated_for_the_class(scene: Scene) -> None:
    """Create a gang whose member a asks for an extended resource of a DeviceClass, and wait for the gang's message."""
    containers = [{"name": "main", "image": "none", "resources": ASKING}]
    scene.api.create(CLASSES, {"metadata": {"name": "gpus"}, "spec": {"extendedResourceName": "example.com/gpu"}})
    scene.api.create(GANGS, gang())
    scene.api.create(PODS, member("a", containers=containers), member("b"))
    await_gated(scene, "pod a asks for example.com/gpu (DeviceClass gpus), which no node's status.allocatable has")


ASKING = {"requests": {"cpu": "4", "example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}


def test_a_gang_with_the_annotation_is_released_without_the_extended_resources_of_a_device_class(scene: Scene) -> None:
    """No node has the resource in `status.allocatable`: the scheduler takes devices of the class."""
    with leading(scene):
        await_gated_for_the_class(scene)
        scene.api.ask("PATCH", f"{GANGS}/llm", IGNORING, _MERGE)
        scene.finish("a", "b")
        assert scene.status()["proof"] == "Feasible"


def test_an_extended_resource_of_a_device_class_holds_the_gang(scene: Scene) -> None:
    """Once the class is deleted, no node has the resource."""
    with leading(scene):
        await_gated_for_the_class(scene)
        scene.api.ask("DELETE", f"{CLASSES}/gpus")
        scene.await_phase("Unplaceable")
        assert "Insufficient example.com/gpu" in scene.status()["message"]
