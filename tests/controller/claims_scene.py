"""The cluster of `controller_scene` with devices. The test plays the scheduler and the controller of claims.

n1, n2, n3: 4 cpu and two devices each. The gang `llm`: pods a and b of 4 cpu, each with a claim of a template.

With shared devices, each node has one device with 8Gi of memory, and each claim consumes 3Gi of it.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from controller_scene import GANGS, PODS, Scene, gang, member
from local_api.resources import FOR_DEVICES
from local_api.server import local_api
from local_api.store import Object, RefusedError

GROUP = "resource.k8s.io"
ROOT = f"/apis/{GROUP}/v1"
CLAIMS = f"{ROOT}/namespaces/default/resourceclaims"
SYSTEM_CLAIMS = f"{ROOT}/namespaces/phalanx-system/resourceclaims"
RULES = f"{ROOT}/devicetaintrules"
DRIVER = "gpu.example.com"
NAMES = ("a", "b")
MERGE = "application/merge-patch+json"
SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 1}}]}}


SHARED_SPEC = {
    "devices": {
        "requests": [
            {"name": "gpu", "exactly": {"deviceClassName": "gpu", "capacity": {"requests": {"memory": "3Gi"}}}}
        ]
    }
}
CAPACITY = 8
"""The memory of a shared device, in Gi."""


@contextmanager
def furnished_with_devices(*, shared: bool = False) -> Iterator[Scene]:
    """The cluster with devices, and without a controller. `shared`: whether claims share the devices."""
    with local_api(*FOR_DEVICES) as api:
        found = Scene(api)
        found.furnish()
        selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
        api.create(f"{ROOT}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}})
        slice_of = shared_device_of_node if shared else devices_of_node
        api.create(f"{ROOT}/resourceslices", *map(slice_of, ("n1", "n2", "n3")))
        template = {"metadata": {"name": "one"}, "spec": {"spec": SHARED_SPEC if shared else SPEC}}
        api.create(f"{ROOT}/namespaces/default/resourceclaimtemplates", template)
        yield found


def devices_of_node(name: str) -> Object:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]}
    return {"metadata": {"name": name}, "spec": spec}


def shared_device_of_node(name: str) -> Object:
    found = devices_of_node(name)
    capacity = {"memory": {"value": f"{CAPACITY}Gi"}}
    found["spec"]["devices"] = [{"name": "gpu-0", "allowMultipleAllocations": True, "capacity": capacity}]
    return found


def spec_of_claims(scene: Scene) -> Object:
    """The spec of the claims of the template."""
    found: Object = scene.api.ask("GET", f"{ROOT}/namespaces/default/resourceclaimtemplates/one")["spec"]["spec"]
    return found


def is_shared(scene: Scene) -> bool:
    """Whether claims share the devices."""
    return spec_of_claims(scene) == SHARED_SPEC


def submit(scene: Scene, *, of: Object | None = None, **spec: Any) -> None:
    """Create the gang, its members and their claims.

    :param of: fields of the gang's spec.
    :param spec: fields of the members' specs.
    """
    scene.api.create(GANGS, gang(**(of or {})))
    for name in NAMES:
        create_member(scene, name, **spec)


def create_member(scene: Scene, name: str, *, cpu: int = 4, **spec: Any) -> None:
    """Create a member and its claim, as its template says."""
    named = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    scene.api.create(PODS, member(name, cpu=cpu, resourceClaims=named, **spec))
    scene.api.create(CLAIMS, {"metadata": {"name": f"{name}-gpu"}, "spec": spec_of_claims(scene)})
    made = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]}
    scene.api.ask("PATCH", f"{PODS}/{name}/status", {"status": made}, MERGE)


def delete_member(scene: Scene, name: str) -> None:
    """Delete a member; its claim goes with it."""
    scene.gone(name)
    scene.api.ask("DELETE", f"{CLAIMS}/{name}-gpu")


def run_with_device(
    scene: Scene, name: str, node: str, device: str, *, cpu: int = 0, memory: int = 3, **spec: Any
) -> None:
    """A pod runs on this node, with a claim of its name that has this device.

    `memory`: what the claim consumes of a shared device, in Gi.
    """
    scene.run(name, node, cpu=cpu, resourceClaims=[{"name": "gpu", "resourceClaimName": name}], **spec)
    scene.api.create(CLAIMS, {"metadata": {"name": name}, "spec": spec_of_claims(scene)})
    share = {"shareID": f"share-{name}", "consumedCapacity": {"memory": f"{memory}Gi"}} if is_shared(scene) else {}
    results = [{"request": "gpu", "driver": DRIVER, "pool": node, "device": device, **share}]
    reserved = [{"resource": "pods", "name": name, "uid": scene.pod(name)["metadata"]["uid"]}]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
    scene.api.ask("PATCH", f"{CLAIMS}/{name}/status", {"status": status}, MERGE)


def held(scene: Scene) -> dict[str, list[tuple[str, str]]]:
    """The devices of each claim, by its name."""
    return {
        claim["metadata"]["name"]: [(each["pool"], each["device"]) for each in results_of(claim)]
        for claim in scene.api.ask("GET", CLAIMS)["items"]
    }


def results_of(claim: Object) -> list[Object]:
    """The entries of the claim's allocation."""
    allocation = (claim.get("status") or {}).get("allocation") or {"devices": {"results": []}}
    return list(allocation["devices"]["results"])


def items(scene: Scene, path: str) -> list[Any]:
    """The objects of a collection."""
    found: list[Any] = scene.api.ask("GET", path)["items"]
    return found


def refuse_double(scene: Scene) -> None:
    """Fail if a device has two claims, or if claims consume more of a shared device than its capacity."""
    results = (result for claim in items(scene, CLAIMS) for result in results_of(claim))
    taken = Counter[tuple[str, str]]()
    for each in results:
        consumed = each.get("consumedCapacity", {}).get("memory", f"{CAPACITY}Gi")
        taken[each["pool"], each["device"]] += int(consumed.removesuffix("Gi"))
    assert all(amount <= CAPACITY for amount in taken.values()), held(scene)


def message(scene: Scene) -> str:
    """The message in the gang's status."""
    return str(scene.status().get("message", ""))


def held_soon(scene: Scene) -> dict[str, list[tuple[str, str]]]:
    """Answer the probes of taints, but no others, so that the gang is held and not released."""
    for probe in scene.probes():
        if "conditions" not in probe["status"] and probe["metadata"]["labels"]["phalanx.dev/probe"] != "claims":
            try:
                scene.answer(probe["metadata"]["name"])
            except RefusedError:
                continue
    return held(scene)


def assert_started(scene: Scene, *names: str) -> None:
    """Fail unless these members run, each with a device of its node that is reserved for it, and nothing is left."""
    refuse_double(scene)
    on = dict(zip(names, scene.nodes(*names), strict=True))
    assert {name: held(scene)[f"{name}-gpu"][0][0] for name in names} == on
    for name in names:
        claim = scene.api.ask("GET", f"{CLAIMS}/{name}-gpu")
        assert [each["name"] for each in claim["status"]["reservedFor"]] == [name]
        assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
        term = scene.pod(name)["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        (field,) = term["nodeSelectorTerms"][0]["matchFields"]
        assert field["values"] == [on[name]]


def finish_with_devices(scene: Scene, *names: str) -> None:
    """Be the scheduler until these members run, and until no rule and no probe is left."""
    scene.finish(*names)
    scene.api.wait(lambda: not taking(scene), "the rules to be gone")
    scene.api.wait(lambda: not items(scene, SYSTEM_CLAIMS), "the claims of probes to be gone")
    assert_started(scene, *names)


def taking(scene: Scene) -> list[str]:
    """The names of the rules by which plans take devices."""
    names = (each["metadata"]["name"] for each in items(scene, RULES))
    return [name for name in names if name.startswith("phalanx-taking-")]
