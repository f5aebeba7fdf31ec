"""A gang that holds devices while its members and nodes change, on the local API server.

n1, n2, n3: 4 cpu and two devices each. The gang `llm`: pods a and b of 4 cpu, each with a claim of a template. The test
plays the scheduler and the controller of claims.
"""

from collections.abc import Iterator

import pytest
from claims_scene import (
    CLAIMS,
    MERGE,
    NAMES,
    ROOT,
    RULES,
    create_member,
    delete_member,
    devices_of_node,
    finish_with_devices,
    furnished_with_devices,
    held,
    held_soon,
    items,
    run_with_device,
    submit,
)
from controller_scene import GANGS, Scene, gang, leading

from controller.scheduling import rejections

ANYWHERE = {"required": None, "topology": None}
FOUR = ("a", "b", "c", "d")


@pytest.fixture
def empty() -> Iterator[Scene]:
    """The cluster with devices, and without a gang and a controller."""
    with furnished_with_devices() as found:
        yield found


@pytest.fixture
def scene(empty: Scene) -> Scene:
    """The cluster with devices and the gang, and without a controller."""
    submit(empty, of=ANYWHERE)
    return empty


def await_hold(scene: Scene, *names: str) -> None:
    """Wait until the claims of these members have devices. The gang is not released meanwhile."""
    scene.api.wait(lambda: all(held_soon(scene)[f"{name}-gpu"] for name in names), "the devices to be held")


def test_a_gang_that_grows_while_it_holds_devices_starts_with_all_members(scene: Scene) -> None:
    with leading(scene):
        await_hold(scene, *NAMES)
        scene.api.ask("PATCH", f"{GANGS}/llm", {"spec": {"minMember": 3}}, MERGE)
        create_member(scene, "c")
        await_hold(scene, *NAMES, "c")
        finish_with_devices(scene, *NAMES, "c")


def test_a_gang_that_shrinks_while_it_holds_devices_frees_those_of_the_member_that_is_gone(scene: Scene) -> None:
    scene.api.ask("PATCH", f"{GANGS}/llm", {"spec": {"minMember": 3}}, MERGE)
    create_member(scene, "c")
    with leading(scene):
        await_hold(scene, *NAMES, "c")
        scene.api.ask("PATCH", f"{GANGS}/llm", {"spec": {"minMember": 2}}, MERGE)
        delete_member(scene, "c")
        finish_with_devices(scene, *NAMES)


def test_a_member_that_is_recreated_while_devices_are_held_gets_one_for_its_new_claim(scene: Scene) -> None:
    with leading(scene):
        await_hold(scene, *NAMES)
        delete_member(scene, "a")
        create_member(scene, "a2")
        await_hold(scene, "a2", "b")
        finish_with_devices(scene, "a2", "b")


def test_devices_of_a_lost_node_are_given_up_and_replaced(scene: Scene) -> None:
    with leading(scene):
        await_hold(scene, *NAMES)
        lost = held(scene)["a-gpu"][0][0]
        scene.api.ask("DELETE", f"/api/v1/nodes/{lost}")
        finish_with_devices(scene, *NAMES)
    assert lost not in scene.nodes(*NAMES)


def test_a_running_member_on_a_lost_node_is_replaced_with_a_device_of_another_node(scene: Scene) -> None:
    """Its workload recreates it; the other member keeps its device and its node."""
    with leading(scene):
        finish_with_devices(scene, *NAMES)
        kept = held(scene)["b-gpu"]
        lost = scene.nodes("a")[0]
        scene.api.ask("DELETE", f"/api/v1/nodes/{lost}")
        delete_member(scene, "a")
        create_member(scene, "a2")
        finish_with_devices(scene, "a2", "b")
    assert held(scene)["b-gpu"] == kept
    assert lost not in scene.nodes("a2", "b")


def test_nothing_is_left_of_a_gang_that_is_deleted_while_it_holds_devices(scene: Scene) -> None:
    with leading(scene):
        await_hold(scene, *NAMES)
        scene.api.ask("DELETE", f"{GANGS}/llm")
        scene.api.wait(lambda: not any(held_soon(scene).values()), "the devices to be free")
        scene.api.wait(lambda: not items(scene, RULES), "the rules to be gone")
    assert all(map(scene.gated, NAMES))


def submit_four(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create a gang of four that needs all devices of n1 and n2. No rejection ends by the passing of time."""
    monkeypatch.setattr(rejections, "FRESH_SECONDS", 1_000_000.0)
    scene.api.create(GANGS, gang(minMember=4))
    for name in FOUR:
        create_member(scene, name, cpu=1)


def test_a_gang_that_was_rejected_for_lack_of_devices_starts_when_a_slice_appears(
    empty: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty.api.ask("DELETE", f"{ROOT}/resourceslices/n2")
    submit_four(empty, monkeypatch)
    with leading(empty):
        assert "devices of gpu: 2 in r1, 4 needed" in empty.await_phase("Unplaceable")["message"]
        empty.api.create(f"{ROOT}/resourceslices", devices_of_node("n2"))
        finish_with_devices(empty, *FOUR)


def test_a_gang_that_was_rejected_for_lack_of_devices_starts_when_a_claim_is_freed(
    empty: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim is freed after its pod has gone, so only the devices change."""
    run_with_device(empty, "rival", "n1", "gpu-0")
    empty.gone("rival")
    submit_four(empty, monkeypatch)
    with leading(empty):
        assert "devices of gpu: 4 in r1, 3 of them free, 4 needed" in empty.await_phase("Unplaceable")["message"]
        empty.api.ask("DELETE", f"{CLAIMS}/rival")
        finish_with_devices(empty, *FOUR)
