"""Gangs whose devices are held, on a real control plane: allocated by Phalanx before they are released.

rack r0: n0 n1      rack r1: n2 n3      each node: 64 cpu, 4 devices
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from device_scene import (
    CLAIMS,
    DEVICES,
    DRIVER,
    GANGS,
    JOBS,
    MERGE,
    NODES,
    PODS,
    RESOURCE,
    RULES,
    TEMPLATES,
    DeviceScene,
    Leader,
    Object,
    claim_spec,
    device_scene,
    devices_of,
    gang,
    job,
    member,
    pod,
)
from kubernetes.client.exceptions import ApiException
from system import unschedulable

from cluster.api.connecting import connect
from cluster.api.transport import message_of
from kube.keys import DEVICE_RULE, DEVICES_TAKEN, PLAN, SYSTEM_NAMESPACE

pytestmark = pytest.mark.controlplane

RARE = "rare"
SLICES = f"{RESOURCE}/resourceslices"
TOPOLOGIES = "/apis/phalanx.dev/v1alpha1/topologies"
FREE = len(NODES) * DEVICES - 2
"""The number of devices that a gang of two leaves to others."""
MOST_WRITES = 60
"""More writes than a gang of two costs, from its first status to its last."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeviceScene]:
    """The control plane of this file."""
    with device_scene(tmp_path_factory.mktemp("audit")) as scene:
        yield scene


@pytest.fixture
def scene(lab: DeviceScene) -> Iterator[DeviceScene]:
    """The cluster without workloads, claims and rules."""
    yield lab
    lab.clear()


def submit(scene: DeviceScene, name: str, size: int, **how: str) -> None:
    """Create a gang and its members."""
    scene.ask("POST", GANGS, gang(name, size))
    for number in range(size):
        scene.ask("POST", PODS, member(f"{name}-{number}", name, **how))


def dies_before(number: int) -> Callable[[Leader, str, str], None]:
    """Return a function that ends a leader's term before its write of this number."""

    def before(leader: Leader, _method: str, _path: str) -> None:
        if len(leader.writes) == number:
            leader.die()

    return before


def planned(scene: DeviceScene, name: str) -> dict[str, list[tuple[str, str]]]:
    """The devices that the gang's plan gives to each member, by the pod's name."""
    return {
        each["pods"][0]: [(device["pool"], device["device"]) for device in each["devices"]]
        for each in scene.status(name).get("claims", ())
    }


def test_a_job_gets_the_planned_devices_and_the_scheduler_writes_no_claim(scene: DeviceScene) -> None:
    mark = scene.mark()
    with scene.history() as history, Leader(scene):
        scene.ask("POST", GANGS, gang("llm", 4))
        scene.ask("POST", JOBS, job("llm", 4))
        scene.wait(lambda: len(planned(scene, "llm")) == 4, "a plan with devices")
        plan = planned(scene, "llm")
        scene.wait(lambda: len(scene.bound("llm")) == 4, "the gang to be bound")
        scene.wait(lambda: not scene.rules(), "the rules to be gone")
    assert history.devices("llm") == plan
    assert history.doubled == {}
    assert scene.bound("llm") == {name: devices[0][0] for name, devices in plan.items()}
    assert scene.writes("kube-scheduler", "resourceclaims", mark) == []
    (config,) = history.last("llm")[0]["status"]["allocation"]["devices"]["config"]
    assert config["source"] == "FromClass"


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_leader_that_dies_before_any_write_leaves_what_the_next_one_finishes(scene: DeviceScene) -> None:
    """Each round ends the leader's term before one more write. A rival of the gang waits for every device meanwhile."""
    for number in range(1, MOST_WRITES):
        if crashed(scene, number) < number:
            return
    pytest.fail(f"the protocol has {MOST_WRITES} writes or more")


def crashed(scene: DeviceScene, number: int) -> int:
    """Let one leader die before its write of this number, and another one finish. Return the first one's writes."""
    mark, name = scene.mark(), f"g{number}"

    def whole() -> bool:
        return len(scene.bound(name)) == 2

    with scene.history() as history:
        submit(scene, name, 2)
        with Leader(scene, before=dies_before(number)) as first:
            scene.wait(lambda: first.term.left() <= 0 or whole(), "the death")
        with Leader(scene):
            scene.wait(whole, f"{name} to be bound")
            scene.wait(lambda: not scene.rules(), "the rules to be gone")
            scene.wait(lambda: not scene.leftovers(), "the probes to be gone")
    assert history.doubled == {}, number
    assert scene.writes("kube-scheduler", "resourceclaims", mark) == [], number
    scene.clear()
    return len(first.writes)


def test_a_member_whose_template_is_missing_is_waited_for(scene: DeviceScene) -> None:
    scene.ask("POST", GANGS, gang("llm", 1))
    late = member("llm-0", "llm")
    late["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "late"}]
    scene.ask("POST", PODS, late)
    with Leader(scene):
        scene.wait(lambda: "ResourceClaimTemplate late" in scene.status().get("message", ""), "the message")
        assert scene.rules() == []
        scene.ask("POST", TEMPLATES, {"metadata": {"name": "late"}, "spec": {"spec": claim_spec()}})
        scene.wait(lambda: scene.bound("llm"), "the member to be bound")
    scene.ask("DELETE", f"{TEMPLATES}/late")


def test_a_device_that_another_client_allocates_meanwhile_is_yielded(scene: DeviceScene) -> None:
    """The other claim keeps the device, a waiting pod does not get it either, and the gang starts elsewhere."""

    def double(_: Leader, method: str, path: str) -> None:
        if method == "DELETE" and "devicetaintrules/phalanx-taking" in path and not first:
            first.extend(device for claim in scene.claims("llm") for device in devices_of(claim))
            scene.allocate("rival", "rival", *first[0])

    first = list[tuple[str, str]]()
    scene.ask("POST", CLAIMS, {"metadata": {"name": "rival"}, "spec": claim_spec()})
    scene.ask("POST", PODS, pod("rival", "rival", schedulingGates=[{"name": "example.com/other"}]))
    with scene.history() as history, Leader(scene, before=double):
        submit(scene, "llm", 2)
        scene.wait(lambda: len(scene.bound("llm")) == 2, "the gang to be bound")
        assert scene.yielding() != []
        assert first[0] not in [device for claim in scene.claims("llm") for device in devices_of(claim)]
        scene.ask("DELETE", f"{PODS}/rival?gracePeriodSeconds=0")
        scene.plane.request("DELETE", f"{CLAIMS}/rival")
        scene.wait(lambda: not scene.rules(), "the device to be free again")
    assert list(history.doubled) == [first[0]]


def test_devices_are_given_up_for_a_waiting_pod_of_higher_priority(scene: DeviceScene) -> None:
    """The gang holds all devices of n0 and waits for its victim to end, while a pod of higher priority wants one."""
    slow = {"metadata": {"name": "slow", "namespace": "default", "finalizers": ["example.com/slow"]}}
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "60"}}}
    scene.ask("POST", PODS, {**slow, "spec": {"nodeName": "n0", "priorityClassName": "low", "containers": [container]}})
    scene.wait(lambda: scene.ask("GET", f"{PODS}/slow")["status"].get("phase") == "Running", "the victim to run")
    scene.ask("POST", GANGS, gang("llm", 4))
    for number in range(4):
        each = member(f"llm-{number}", "llm", priority="middle")
        each["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "16"}
        scene.ask("POST", PODS, {**each, "spec": {**each["spec"], "nodeSelector": {"kubernetes.io/hostname": "n0"}}})
    with scene.history() as history, Leader(scene):
        scene.wait(lambda: len(history.now("llm")) == 4, "the devices to be held")
        scene.ask("POST", PODS, pod("high", "", priority="high", nodeSelector={"kubernetes.io/hostname": "n0"}))
        scene.wait(lambda: scene.bound("high"), "the pod to get a device")
        assert scene.bound("llm") == {}
        scene.wait(lambda: not history.now("llm"), "the other devices to be free")
        scene.wait(lambda: not scene.rules(), "the rules to be gone")
        assert "DevicesLost" in scene.events()
        scene.patch(f"{PODS}/slow", {"metadata": {"finalizers": None}})
    assert history.doubled == {}


def test_a_gang_waits_for_devices_that_do_not_exist_yet_and_starts_whole_when_they_appear(scene: DeviceScene) -> None:
    """The nodes of a rack have one device each, and the gang needs four in one rack.

    The stock scheduler would start two pods.
    """
    in_rack = gang("llm", 4)
    in_rack["spec"] |= {"topology": "dc", "required": "rack"}
    with rare_devices(scene, "n0", "n1"), scene.history() as history, Leader(scene):
        one = job("llm", 4)
        one["spec"]["template"]["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": RARE}]
        scene.ask("POST", GANGS, in_rack)
        scene.ask("POST", JOBS, one)
        scene.wait(lambda: scene.status().get("phase") == "Unplaceable", "the rejection")
        assert f"devices of {RARE}" in scene.status()["message"]
        assert [each for each in scene.pods("llm") if not each["spec"].get("schedulingGates")] == []
        assert history.now("llm") == []
        for name in ("n0", "n1"):
            scene.ask("POST", SLICES, rare_slice(name, "more"))
        scene.wait(lambda: len(scene.bound("llm")) == 4, "the gang to be bound")
        assert set(scene.bound("llm").values()) == {"n0", "n1"}
        assert history.doubled == {}
        scene.ask("DELETE", f"{JOBS}/llm?propagationPolicy=Background")
        scene.wait(lambda: not scene.claims("llm"), "the claims to be gone")


@contextmanager
def rare_devices(scene: DeviceScene, *nodes: str) -> Iterator[None]:
    """A DeviceClass of which these nodes have one device each, a template of claims for it, and a topology of racks."""
    levels = [{"name": "rack", "nodeLabel": "rack"}]
    named = {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Topology", "metadata": {"name": "dc"}}
    scene.ask("POST", TOPOLOGIES, {**named, "spec": {"levels": levels}})
    chosen = [{"cel": {"expression": f"device.driver == '{RARE}.example.com'"}}]
    scene.ask("POST", f"{RESOURCE}/deviceclasses", {"metadata": {"name": RARE}, "spec": {"selectors": chosen}})
    devices = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": RARE}}]}}
    scene.ask("POST", TEMPLATES, {"metadata": {"name": RARE}, "spec": {"spec": devices}})
    for name in nodes:
        scene.ask("POST", SLICES, rare_slice(name))
    yield
    for each in scene.ask("GET", SLICES)["items"]:
        if each["spec"]["driver"].startswith(RARE):
            scene.ask("DELETE", f"{SLICES}/{each['metadata']['name']}")
    scene.ask("DELETE", f"{TEMPLATES}/{RARE}")
    scene.ask("DELETE", f"{TOPOLOGIES}/dc")
    scene.ask("DELETE", f"{RESOURCE}/deviceclasses/{RARE}")


def rare_slice(name: str, pool_name: str = "first") -> Object:
    """The slice of a node with one device of the driver rare.example.com, in a pool of its own."""
    pool = {"name": f"{pool_name}-{name}", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": f"{RARE}.example.com", "nodeName": name, "pool": pool, "devices": [{"name": "only"}]}
    return {"metadata": {"name": f"{name}-{RARE}-{pool_name}"}, "spec": spec}


def dies_before_release(leader: Leader, method: str, path: str) -> None:
    """End the leader's term before the write that would release a member."""
    if method == "PATCH" and path.startswith(f"{PODS}/") and not path.endswith("/status"):
        leader.die()


def dies_before_untainting(leader: Leader, method: str, path: str) -> None:
    """End the leader's term while it holds all devices and still taints their pools."""
    if method == "DELETE" and "/devicetaintrules/" in path:
        leader.die()


def test_devices_are_held_while_the_scheduler_restarts(scene: DeviceScene) -> None:
    """No controller runs meanwhile, and rivals want all devices."""
    mark = scene.mark()
    with scene.history() as history:
        submit(scene, "llm", 2)
        with Leader(scene, before=dies_before_release) as first:
            scene.wait(lambda: first.term.left() <= 0, "the death before the release")
        plan = planned(scene, "llm")
        scheduler = scene.plane.program("kube-scheduler")
        scheduler.kill()
        for number in range(FREE + 4):
            scene.ask("POST", PODS, pod(f"rival-{number}", ""))
        scheduler.start()
        scene.plane.await_ready("kube-scheduler")
        scene.wait(lambda: len(scene.bound("rival")) == FREE, "the rivals to have all free devices")
        scene.wait(lambda: len([*filter(unschedulable, scene.pods("rival"))]) == 4, "the others to wait")
        with Leader(scene):
            scene.wait(lambda: len(scene.bound("llm")) == 2, "the gang to be bound")
        assert history.devices("llm") == plan
    assert history.doubled == {}
    assert [
        each for each in scene.writes("kube-scheduler", "resourceclaims", mark) if each.name.startswith("llm")
    ] == []


def test_nothing_is_left_of_a_namespace_that_is_deleted_while_devices_are_held(scene: DeviceScene) -> None:
    """The leader dies, too, so the next leader knows the gang's rules from the cluster only."""

    def put(path: str, manifest: Object) -> None:
        of_team = {**manifest, "metadata": {**manifest["metadata"], "namespace": "team"}}
        scene.ask("POST", path.replace("/namespaces/default/", "/namespaces/team/"), of_team)

    def in_team(path: str) -> list[Object]:
        found: list[Object] = scene.ask("GET", path.replace("/namespaces/default/", "/namespaces/team/"))["items"]
        return found

    account = "/api/v1/namespaces/team/serviceaccounts/default"
    scene.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    scene.wait(lambda: scene.plane.request("GET", account).get("kind") == "ServiceAccount", "a service account")
    put(TEMPLATES, {"metadata": {"name": "one"}, "spec": {"spec": claim_spec()}})
    put(GANGS, gang("llm", 2))
    for number in range(2):
        put(PODS, member(f"llm-{number}", "llm"))
    with Leader(scene, before=dies_before_untainting) as first:
        scene.wait(lambda: first.term.left() <= 0, "the devices to be held")
    assert len([each for each in in_team(CLAIMS) if devices_of(each)]) == 2
    assert scene.rules() != []
    scene.ask("DELETE", "/api/v1/namespaces/team")
    with Leader(scene):
        scene.wait(lambda: not scene.rules() and not scene.leftovers(), "the rules and probes to be gone")
        scene.wait(lambda: not in_team(CLAIMS), "the claims to be gone, and so the devices to be free")
        scene.wait(lambda: scene.plane.request("GET", "/api/v1/namespaces/team").get("code") == 404, "the namespace")
        submit(scene, "whole", 4)
        scene.wait(lambda: len(scene.bound("whole")) == 4, "another gang to get devices")


def test_the_controller_cannot_touch_a_claim_that_it_has_not_allocated(scene: DeviceScene) -> None:
    """The rights of its service account, and the policies that limit them."""
    ours = connect(str(scene.plane.kubeconfig_for(SYSTEM_NAMESPACE, "phalanx-controller")))

    def refusal(path: str, patch: Object, method: str = "PATCH") -> str:
        with pytest.raises(ApiException) as error:
            ours.request(method, path, body=patch, content_type=MERGE if method == "PATCH" else "application/json")
        return message_of(error.value)

    scene.ask("POST", PODS, pod("theirs", "", nodeSelector={"kubernetes.io/hostname": "n0"}))
    scene.wait(lambda: scene.bound("theirs"), "the pod to be bound")
    (claim,) = scene.claims("theirs")
    path, freed = f"{CLAIMS}/{claim['metadata']['name']}", {"status": {"allocation": None, "reservedFor": None}}
    assert "may only allocate claims, and deallocate claims that it has allocated" in refusal(f"{path}/status", freed)
    mark = {"metadata": {"annotations": {PLAN: "p"}}}
    assert "may only mark a claim without devices as its own" in refusal(path, mark)
    assert "may only mark a claim" in refusal(path, {"metadata": {"finalizers": None}})
    whole = {"metadata": {"name": "more"}, "spec": claim_spec()}
    assert "cannot create resource" in refusal(CLAIMS, whole, "POST")
    system = f"{RESOURCE}/namespaces/{SYSTEM_NAMESPACE}/resourceclaims"
    scene.ask("POST", system, {"metadata": {"name": "probe-x"}, "spec": claim_spec()})
    results = [{"request": "gpu", "driver": DRIVER, "pool": "n0", "device": "gpu-3"}]
    taken = {"status": {"allocation": {"devices": {"results": results}}}}
    answer = scene.plane.request("PATCH", f"{system}/probe-x/status", taken, MERGE)
    assert "no claim in the namespace of Phalanx is allocated" in answer["message"]
    scene.ask("DELETE", f"{system}/probe-x")
    taint = {"key": DEVICES_TAKEN, "value": "taking", "effect": "NoSchedule"}
    selector = {"driver": DRIVER, "pool": "n0"}
    labels = {"labels": {DEVICE_RULE: "taking"}}
    rule = {"metadata": {"name": "theirs"}, "spec": {"deviceSelector": selector, "taint": taint}}
    scene.ask("POST", RULES, rule)
    assert "may only delete rules that it has created" in refusal(f"{RULES}/theirs", {}, "DELETE")
    scene.ask("DELETE", f"{RULES}/theirs")
    evicting = {"deviceSelector": selector, "taint": {**taint, "effect": "NoExecute"}}
    unlabelled = {"metadata": {"name": "ours"}, "spec": rule["spec"]}
    everywhere = {
        "metadata": {"name": "ours", **labels},
        "spec": {"deviceSelector": {"driver": DRIVER}, "taint": taint},
    }
    for wrong in ({"metadata": {"name": "ours", **labels}, "spec": evicting}, unlabelled, everywhere):
        assert "may only taint pools of devices against new claims" in refusal(RULES, wrong, "POST")
    ours.request("POST", RULES, body={"metadata": {"name": "ours", **labels}, "spec": rule["spec"]})
    ours.request("DELETE", f"{RULES}/ours")
