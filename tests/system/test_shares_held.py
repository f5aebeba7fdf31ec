"""Gangs whose pods share devices (consumable capacity), on a real control plane: Phalanx holds the shares.

rack r0: n0 n1      rack r1: n2 n3      each node: 64 cpu, one device with 8Gi of memory that several claims share

A claim consumes whole Gi of the memory, and 1Gi if it does not name the memory.
"""

from collections.abc import Iterable, Iterator

import pytest
from device_scene import (
    CLAIMS,
    GANGS,
    JOBS,
    PODS,
    TEMPLATES,
    DeviceScene,
    Leader,
    Object,
    device_scene,
    gang,
    job,
    member,
    pod,
    results_of,
    share_spec,
    slice_with_shared_devices,
)

from kube.quantities import exact

pytestmark = pytest.mark.controlplane

WHOLE = exact("8Gi")
RIVALS = 12
"""Pods of 1Gi. With them, one of two gangs of four pods of 3Gi fits, or both do."""
MOST_WRITES = 60
"""More writes than a gang of two costs, from its first status to its last."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeviceScene]:
    """The control plane of this file, with a template `large` of claims of 2500Mi."""
    with device_scene(tmp_path_factory.mktemp("audit"), slice_of=slice_with_shared_devices) as scene:
        scene.ask("POST", TEMPLATES, {"metadata": {"name": "large"}, "spec": {"spec": share_spec("2500Mi")}})
        yield scene


@pytest.fixture
def scene(lab: DeviceScene) -> Iterator[DeviceScene]:
    """The cluster without workloads, claims and rules."""
    yield lab
    lab.clear()


def large_pod(name: str, **how: str) -> Object:
    """An ordinary pod with a claim of the template `large`."""
    found = pod(name, "", **how)
    found["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "large"}]
    return found


def large_member(name: str, of: str) -> Object:
    """A gated member of a gang, with a claim of the template `large`."""
    found = member(name, of)
    found["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "large"}]
    return found


def unbound(scene: DeviceScene, names: Iterable[str]) -> list[str]:
    """The gangs of which no member is bound."""
    return [name for name in names if not scene.bound(name)]


def large_job(name: str, size: int) -> Object:
    """A Job whose pods are members of a gang of its name, each with a claim of the template `large`."""
    found = job(name, size)
    spec = found["spec"]["template"]["spec"]
    spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "large"}]
    return found


def test_a_job_gets_the_planned_shares_and_the_scheduler_writes_no_claim(scene: DeviceScene) -> None:
    """Four shares of 3Gi: two for each device. The allocations have what the scheduler writes for an ordinary pod."""
    scene.ask("POST", PODS, large_pod("stock"))
    scene.wait(lambda: scene.bound("stock"), "an ordinary pod to be bound")
    (stock,) = scene.claims("stock")
    mark = scene.mark()
    with scene.history() as history, Leader(scene):
        scene.ask("POST", GANGS, gang("llm", 4))
        scene.ask("POST", JOBS, large_job("llm", 4))
        scene.wait(lambda: len(scene.bound("llm")) == 4, "the gang to be bound")
        scene.wait(lambda: not scene.rules(), "the rules to be gone")
    held = history.last("llm")
    (model,) = results_of(stock)
    for (result,) in map(results_of, held):
        assert result.keys() == model.keys()
        assert result["consumedCapacity"] == model["consumedCapacity"] == {"memory": "3Gi"}
    assert len({result["shareID"] for (result,) in map(results_of, held)}) == 4
    for claim in held:
        assert claim["status"]["allocation"].keys() == stock["status"]["allocation"].keys()
        assert claim["status"]["allocation"]["devices"]["config"] == stock["status"]["allocation"]["devices"]["config"]
    assert max(history.most_consumed.values()) <= WHOLE
    assert scene.writes("kube-scheduler", "resourceclaims", mark) == []


def test_shares_are_never_more_than_the_capacity_beside_rivals(scene: DeviceScene) -> None:
    """Two gangs of four and pods of no gang race for four devices, each for two shares of 3Gi and two of 1Gi."""
    sizes = {"left": 4, "right": 4}
    for name, size in sizes.items():
        scene.ask("POST", GANGS, gang(name, size))
    pods = [large_member(f"{name}-{number}", name) for name, size in sizes.items() for number in range(size)]
    pods += [pod(f"rival-{number}", "") for number in range(RIVALS)]
    mark = scene.mark()
    with scene.history() as history, Leader(scene):
        scene.create_shuffled(pods, seed=7)
        scene.wait(lambda: any(len(scene.bound(name)) == size for name, size in sizes.items()), "a gang to be bound")
        scene.wait(lambda: not scene.rules() and not any(map(scene.holds, unbound(scene, sizes))), "the others to wait")
        for name, size in sizes.items():
            assert len(scene.bound(name)) in (0, size), "a gang is bound in part"
        assert history.whole
    assert max(history.most_consumed.values()) <= WHOLE
    written = {each.name for each in scene.writes("kube-scheduler", "resourceclaims", mark)}
    assert [each for each in written if each.startswith(tuple(sizes))] == []


def test_a_share_beyond_the_capacity_is_yielded_and_others_get_what_it_leaves(scene: DeviceScene) -> None:
    """Another client gives 6Gi of a device to its claim while the gang holds 3Gi of the device at least."""

    def overdraw(_: Leader, method: str, path: str) -> None:
        if method == "DELETE" and "devicetaintrules/phalanx-taking" in path and not first:
            (result,) = results_of(scene.claims("llm")[0])
            first.append(result["pool"])
            uid = scene.ask("GET", f"{PODS}/rival")["metadata"]["uid"]
            share = {**result, "shareID": "7f2b8c1e-0000-4000-8000-000000000000", "consumedCapacity": {"memory": "6Gi"}}
            reserved = [{"resource": "pods", "name": "rival", "uid": uid}]
            status = {"allocation": {"devices": {"results": [share]}}, "reservedFor": reserved}
            scene.patch(f"{CLAIMS}/rival/status", {"status": status})

    first = list[str]()
    scene.ask("POST", CLAIMS, {"metadata": {"name": "rival"}, "spec": share_spec("6Gi")})
    scene.ask("POST", PODS, pod("rival", "rival", schedulingGates=[{"name": "example.com/other"}]))
    with scene.history() as history, Leader(scene, before=overdraw):
        scene.ask("POST", GANGS, gang("llm", 2))
        for number in range(2):
            scene.ask("POST", PODS, large_member(f"llm-{number}", "llm"))
        scene.wait(lambda: len(scene.bound("llm")) == 2, "the gang to be bound")
        assert first[0] not in scene.bound("llm").values()
        scene.wait(lambda: not scene.rules(), "the rules to be gone, although the other claim has its share")
        scene.ask("POST", PODS, pod("small", "", nodeSelector={"kubernetes.io/hostname": first[0]}))
        scene.wait(lambda: scene.bound("small"), "another pod to get a share of what is left")
    assert [pool for (pool, _), amount in history.most_consumed.items() if amount > WHOLE] == first


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_leader_that_dies_before_any_write_leaves_shares_that_the_next_one_finishes(scene: DeviceScene) -> None:
    """Each round ends the leader's term before one more write."""
    for number in range(1, MOST_WRITES):
        if crashed(scene, number) < number:
            return
    pytest.fail(f"the protocol has {MOST_WRITES} writes or more")


def crashed(scene: DeviceScene, number: int) -> int:
    """Let one leader die before its write of this number, and another one finish. Return the first one's writes."""
    mark, name = scene.mark(), f"g{number}"

    def dies(leader: Leader, _method: str, _path: str) -> None:
        if len(leader.writes) == number:
            leader.die()

    def whole() -> bool:
        return len(scene.bound(name)) == 2

    with scene.history() as history:
        scene.ask("POST", GANGS, gang(name, 2))
        for member_number in range(2):
            scene.ask("POST", PODS, large_member(f"{name}-{member_number}", name))
        with Leader(scene, before=dies) as first:
            scene.wait(lambda: first.term.left() <= 0 or whole(), "the death")
        with Leader(scene):
            scene.wait(whole, f"{name} to be bound")
            scene.wait(lambda: not scene.rules(), "the rules to be gone")
            scene.wait(lambda: not scene.leftovers(), "the probes to be gone")
    assert max(history.most_consumed.values()) <= WHOLE, number
    assert scene.writes("kube-scheduler", "resourceclaims", mark) == [], number
    scene.clear()
    return len(first.writes)
