"""The cluster of `controller_scene` with devices. The test plays the scheduler and the controller of claims.

n1, n2, n3: 4 cpu and two devices each. The gang `llm`: pods a and b of 4 cpu, each with a claim of a template.
"""

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


@contextmanager
def furnished_with_devices() -> Iterator[Scene]:
    """The cluster with devices, and without a controller."""
    with local_api(*FOR_DEVICES) as api:
        found = Scene(api)
        found.furnish()
        selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
        api.create(f"{ROOT}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}})
        api.create(f"{ROOT}/resourceslices", *map(devices_of_node, ("n1", "n2", "n3")))
        template = {"metadata": {"name": "one"}, "spec": {"spec": SPEC}}
        api.create(f"{ROOT}/namespaces/default/resourceclaimtemplates", template)
        yield found


def devices_of_node(name: str) -> Object:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]}
    return {"metadata": {"name": name}, "spec": spec}


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
    scene.api.create(CLAIMS, {"metadata": {"name": f"{name}-gpu"}, "spec": SPEC})
    made = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]}
    scene.api.ask("PATCH", f"{PODS}/{name}/status", {"status": made}, MERGE)


def delete_member(scene: Scene, name: str) -> None:
    """Delete a member; its claim goes with it."""
    scene.gone(name)
    scene.api.ask("DELETE", f"{CLAIMS}/{name}-gpu")


def run_with_device(scene: Scene, name: str, node: str, device: str, *, cpu: int = 0, **spec: Any) -> None:
    """A pod runs on this node, with a claim of its name that has this device."""
    scene.run(name, node, cpu=cpu, resourceClaims=[{"name": "gpu", "resourceClaimName": name}], **spec)
    scene.api.create(CLAIMS, {"metadata": {"name": name}, "spec": SPEC})
    results = [{"request": "gpu", "driver": DRIVER, "pool": node, "device": device}]
    reserved = [{"resource": "pods", "name": name, "uid": scene.pod(name)["metadata"]["uid"]}]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
    scene.api.ask("PATCH", f"{CLAIMS}/{name}/status", {"status": status}, MERGE)


def held(scene: Scene) -> dict[str, list[tuple[str, str]]]:
    """The devices of each claim, by its name."""
    found = {}
    for claim in scene.api.ask("GET", CLAIMS)["items"]:
        allocation = (claim.get("status") or {}).get("allocation") or {"devices": {"results": []}}
        found[claim["metadata"]["name"]] = [(e["pool"], e["device"]) for e in allocation["devices"]["results"]]
    return found


def items(scene: Scene, path: str) -> list[Any]:
    """The objects of a collection."""
    found: list[Any] = scene.api.ask("GET", path)["items"]
    return found


def refuse_double(scene: Scene) -> None:
    """Fail if a device has two claims."""
    taken = [device for devices in held(scene).values() for device in devices]
    assert len(taken) == len(set(taken)), held(scene)


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
