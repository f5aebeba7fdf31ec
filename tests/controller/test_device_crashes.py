"""A leader that dies before any write while it takes devices, on the local API server: the next leader finishes.

n1, n2, n3: 4 cpu and two devices each. The gang `llm`: pods a and b of 4 cpu, each with a claim of a template. The test
plays the scheduler and the controller of claims.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from controller_scene import GANGS, PODS, Leader, Scene, gang, leading, member
from local_api.resources import Resource
from local_api.server import UNREACHABLE, Fault, local_api
from local_api.store import Object, RefusedError

from controller.acting import holding

GROUP = "resource.k8s.io"
RESOURCES = (
    Resource(GROUP, "v1", "resourceclaims", "ResourceClaim", status=True),
    Resource(GROUP, "v1", "resourceclaimtemplates", "ResourceClaimTemplate"),
    Resource(GROUP, "v1", "resourceslices", "ResourceSlice", namespaced=False),
    Resource(GROUP, "v1", "devicetaintrules", "DeviceTaintRule", namespaced=False),
)
ROOT = f"/apis/{GROUP}/v1"
CLAIMS = f"{ROOT}/namespaces/default/resourceclaims"
SYSTEM_CLAIMS = f"{ROOT}/namespaces/phalanx-system/resourceclaims"
RULES = f"{ROOT}/devicetaintrules"
DRIVER = "gpu.example.com"
NAMES = ("a", "b")
MERGE = "application/merge-patch+json"
WRITES = 24
"""As many writes as the gang costs up to its release, those of probes included."""
SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 1}}]}}


@pytest.fixture
def scene() -> Iterator[Scene]:
    """The cluster with devices, and without a controller."""
    with local_api(*RESOURCES) as api:
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


def submit(scene: Scene) -> None:
    """Create the gang, its members and their claims."""
    scene.api.create(GANGS, gang())
    for name in NAMES:
        named = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
        scene.api.create(PODS, member(name, resourceClaims=named))
        scene.api.create(CLAIMS, {"metadata": {"name": f"{name}-gpu"}, "spec": SPEC})
        made = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]}
        scene.api.ask("PATCH", f"{PODS}/{name}/status", {"status": made}, MERGE)


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


@pytest.mark.parametrize("number", range(1, WRITES + 1))
def test_the_next_leader_finishes(scene: Scene, number: int) -> None:
    leaders = list[Leader]()

    def die() -> None:
        leaders[0].die()

    submit(scene)
    writes = r"(POST|PATCH|DELETE) (?!.*/events)"
    scene.api.fault(writes, *[Fault()] * (number - 1), Fault(before=die, cut=True, carried_out=UNREACHABLE.carried_out))
    with leading(scene) as first:
        leaders.append(first)

        def over() -> bool:
            for probe in scene.probes():
                if "conditions" not in probe["status"]:
                    scene.answer(probe["metadata"]["name"])
            return first.over or all(map(scene.released, NAMES))

        scene.api.wait(over, "the death")
    scene.api.mend()
    refuse_double(scene)
    with leading(scene):
        scene.finish(*NAMES)
        scene.api.wait(lambda: not items(scene, RULES), "the rules to be gone")
        scene.api.wait(lambda: not items(scene, SYSTEM_CLAIMS), "the claims of probes to be gone")
    refuse_double(scene)
    on = dict(zip(NAMES, scene.nodes(*NAMES), strict=True))
    assert {name: held(scene)[f"{name}-gpu"][0][0] for name in NAMES} == on
    for name in NAMES:
        claim = scene.api.ask("GET", f"{CLAIMS}/{name}-gpu")
        assert [each["name"] for each in claim["status"]["reservedFor"]] == [name]
        assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
        term = scene.pod(name)["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        (field,) = term["nodeSelectorTerms"][0]["matchFields"]
        assert field["values"] == [on[name]]


def test_devices_of_a_gang_that_is_changed_are_given_up(scene: Scene) -> None:
    """The gang then asks for three members, of which one is missing."""
    submit(scene)
    with leading(scene):
        scene.api.wait(lambda: any(devices for devices in held_soon(scene).values()), "a held device")
        scene.api.ask("PATCH", f"{GANGS}/llm", {"spec": {"minMember": 3}}, MERGE)
        scene.api.wait(lambda: not any(held_soon(scene).values()), "the devices to be given up")
        scene.api.wait(lambda: not items(scene, RULES), "the rules to be gone")
    assert not any(map(scene.released, NAMES))


def test_a_nominated_pod_that_never_starts_is_named(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a pod of a gang that ignores its claims: it keeps its nomination, and lacks devices."""
    monkeypatch.setattr(holding, "REPORTED_AFTER_SECONDS", 0.0)
    named = [{"name": "gpu", "resourceClaimName": "lacking"}]
    scene.api.create(CLAIMS, {"metadata": {"name": "lacking"}, "spec": SPEC})
    scene.api.create(PODS, member("stuck", "", cpu=0, gated=False, resourceClaims=named))
    scene.api.ask("PATCH", f"{PODS}/stuck/status", {"status": {"nominatedNodeName": "n1"}}, MERGE)
    submit(scene)

    def message() -> str:
        held_soon(scene)
        return str((scene.api.ask("GET", f"{GANGS}/llm").get("status") or {}).get("message", ""))

    with leading(scene):
        scene.api.wait(lambda: "waits for pod default/stuck" in message(), "the pod to be named")
        assert not any(map(scene.released, NAMES))
        scene.api.ask("DELETE", f"{PODS}/stuck")
        scene.finish(*NAMES)
    assert "stuck" not in message()


def held_soon(scene: Scene) -> dict[str, list[tuple[str, str]]]:
    """Answer the probes of taints, but no others, so that the gang is held and not released."""
    for probe in scene.probes():
        if "conditions" not in probe["status"] and probe["metadata"]["labels"]["phalanx.dev/probe"] != "claims":
            try:
                scene.answer(probe["metadata"]["name"])
            except RefusedError:
                continue
    return held(scene)


def test_without_a_device_class_no_claim_is_read(scene: Scene) -> None:
    """A cluster without devices costs no request for them."""
    scene.api.ask("DELETE", f"{ROOT}/deviceclasses/gpu")
    with leading(scene):
        scene.api.create(GANGS, gang())
        scene.api.create(PODS, *map(member, NAMES))
        scene.finish(*NAMES)
    asked = {each.path for each in scene.api.requests if each.path.startswith(ROOT)}
    assert asked <= {f"{ROOT}/deviceclasses"}
