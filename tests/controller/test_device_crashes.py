"""A leader that dies before any write about devices, on the local API server: the next leader finishes.

n1, n2, n3: 4 cpu and two devices each. The gang `llm`: pods a and b of 4 cpu, each with a claim of a template. The test
plays the scheduler and the controller of claims.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from claims_scene import (
    CLAIMS,
    MERGE,
    NAMES,
    ROOT,
    RULES,
    SPEC,
    finish_with_devices,
    furnished_with_devices,
    held,
    held_soon,
    is_shared,
    items,
    message,
    refuse_double,
    run_with_device,
    submit,
)
from controller_scene import GANGS, PODS, Leader, Scene, gang, leading, member
from local_api.server import UNREACHABLE, Fault, refused

from controller.acting import pods_in_flight

WRITES = 24
"""As many writes as the gang costs up to its release, those of probes included."""
MORE_WRITES = 44
"""As many writes as the gang costs that gives devices up first, or evicts pods."""
ANYWHERE = {"required": None, "topology": None}
LOW: dict[str, Any] = {"priorityClassName": "low"}
HIGH: dict[str, Any] = {"priorityClassName": "high"}


@pytest.fixture
def scene() -> Iterator[Scene]:
    """The cluster with devices, and without a controller."""
    with furnished_with_devices() as found:
        yield found


@pytest.fixture
def sharing() -> Iterator[Scene]:
    """The cluster with devices that claims share, and without a controller."""
    with furnished_with_devices(shared=True) as found:
        yield found


def dies_before(scene: Scene, number: int) -> None:
    """Lead until the write of this number, or until all members are released. The write does not arrive."""
    leaders = list[Leader]()

    def die() -> None:
        leaders[0].die()

    writes = r"(POST|PATCH|DELETE) (?!.*/events)"
    scene.api.fault(writes, *[Fault()] * (number - 1), Fault(before=die, cut=True, carried_out=UNREACHABLE.carried_out))
    with leading(scene) as first:
        leaders.append(first)

        def over() -> bool:
            end_victims(scene)
            scene.answer_probes()
            return first.over or all(map(scene.released, NAMES))

        scene.api.wait(over, "the death")
    scene.api.mend()
    end_victims(scene)


def end_victims(scene: Scene) -> None:
    """Let evicted pods end, and delete their claims, as kubelets and the controller of claims do."""
    for pod in items(scene, PODS):
        name = pod["metadata"]["name"]
        if name.startswith("low-") and pod["metadata"].get("deletionTimestamp"):
            scene.gone(name)
            scene.api.ask("DELETE", f"{CLAIMS}/{name}")


@pytest.mark.parametrize("number", range(1, WRITES + 1))
def test_the_next_leader_finishes(scene: Scene, number: int) -> None:
    starts_although_a_leader_dies(scene, number)


def starts_although_a_leader_dies(scene: Scene, number: int) -> None:
    """The leader dies before this write of the gang's start, and the next leader finishes."""
    submit(scene)
    dies_before(scene, number)
    refuse_double(scene)
    with leading(scene):
        finish_with_devices(scene, *NAMES)


def hold(scene: Scene) -> None:
    """Let a leader hold the devices of the gang, and end before it releases the gang."""
    submit(scene, of=ANYWHERE)
    with leading(scene):
        scene.api.wait(lambda: all(held_soon(scene).values()), "the devices to be held")


def lose_a_node(scene: Scene) -> None:
    """The gang holds devices of a node that is gone: it gives them up, and takes others."""
    hold(scene)
    scene.api.ask("DELETE", f"/api/v1/nodes/{held(scene)['a-gpu'][0][0]}")


def double_a_device(scene: Scene) -> None:
    """A running pod has a device that the gang holds, or too much of a shared one: the gang yields."""
    hold(scene)
    ((node, device),) = held(scene)["a-gpu"]
    run_with_device(scene, "rival", node, device, memory=6)


def fill_the_cluster(scene: Scene) -> None:
    """Pods of low priority have all cpu, and devices of which the gang needs some: it evicts two of them."""
    for node in ("n1", "n2", "n3"):
        run_with_device(scene, f"low-{node}", node, "gpu-0", cpu=4, **LOW)
    other = "gpu-0" if is_shared(scene) else "gpu-1"
    for node in ("n1", "n2", "n3"):
        run_with_device(scene, f"low-more-{node}", node, other, cpu=0, **LOW)
    submit(scene, of=ANYWHERE, **HIGH)


def every(few: Sequence[int], total: int) -> list[object]:
    """Return the numbers from 1 to `total`; all but `few` of them are for long runs only."""
    return [pytest.param(number, marks=[] if number in few else [pytest.mark.long]) for number in range(1, total + 1)]


@pytest.mark.parametrize("number", every(range(1, MORE_WRITES + 1, 4), MORE_WRITES))
@pytest.mark.parametrize("begin", [lose_a_node, double_a_device, fill_the_cluster])
def test_the_next_leader_finishes_what_gives_up_yields_or_evicts(
    scene: Scene, begin: Callable[[Scene], None], number: int
) -> None:
    finishes(scene, begin, number)


@pytest.mark.parametrize("number", every(range(3, WRITES + 1, 5), WRITES))
def test_the_next_leader_finishes_with_shares(sharing: Scene, number: int) -> None:
    starts_although_a_leader_dies(sharing, number)


@pytest.mark.parametrize("number", every(range(5, MORE_WRITES + 1, 12), MORE_WRITES))
@pytest.mark.parametrize("begin", [lose_a_node, double_a_device, fill_the_cluster])
def test_the_next_leader_finishes_what_gives_up_yields_or_evicts_shares(
    sharing: Scene, begin: Callable[[Scene], None], number: int
) -> None:
    finishes(sharing, begin, number)


def finishes(scene: Scene, begin: Callable[[Scene], None], number: int) -> None:
    """Let one leader die before its write of this number, and another one finish what `begin` has begun."""
    begin(scene)
    dies_before(scene, number)
    with leading(scene):

        def released() -> bool:
            end_victims(scene)
            scene.answer_probes()
            return all(map(scene.released, NAMES))

        scene.api.wait(released, "the members to be released")
        if begin is double_a_device:
            assert held(scene)["rival"][0] not in [held(scene)[f"{name}-gpu"][0] for name in NAMES]
            scene.gone("rival")
            scene.api.ask("DELETE", f"{CLAIMS}/rival")
        finish_with_devices(scene, *NAMES)
        scene.api.wait(lambda: not items(scene, RULES), "the rules to be gone")


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
    monkeypatch.setattr(pods_in_flight, "REPORTED_AFTER_SECONDS", 0.0)
    named = [{"name": "gpu", "resourceClaimName": "lacking"}]
    scene.api.create(CLAIMS, {"metadata": {"name": "lacking"}, "spec": SPEC})
    scene.api.create(PODS, member("stuck", "", cpu=0, gated=False, resourceClaims=named))
    scene.api.ask("PATCH", f"{PODS}/stuck/status", {"status": {"nominatedNodeName": "n1"}}, MERGE)
    submit(scene)

    with leading(scene):
        scene.api.wait(lambda: held_soon(scene) and "waits for pod default/stuck" in message(scene), "the pod's name")
        assert not any(map(scene.released, NAMES))
        scene.api.ask("DELETE", f"{PODS}/stuck")
        scene.finish(*NAMES)
    assert "stuck" not in message(scene)


def test_rights_that_are_withdrawn_while_devices_are_held_leave_a_message_and_nothing_for_ever(scene: Scene) -> None:
    """The component of the rights is removed between two claims, and installed again. Then the gang is deleted."""
    denied = refused(403, "Forbidden", "devices are forbidden: User phalanx-controller cannot patch them")
    submit(scene)
    scene.api.fault(rf"PATCH {CLAIMS}/b-gpu/status", *[denied] * 10_000)
    with leading(scene):
        scene.api.wait(lambda: any(held_soon(scene).values()), "a held device")
        scene.api.wait(lambda: held_soon(scene) and "devices are forbidden" in message(scene), "the refusal")
    scene.api.fault(rf"GET {ROOT}/(?!deviceclasses)", *[denied] * 10_000)
    with leading(scene):
        scene.api.wait(lambda: "install the component manifests/devices" in message(scene), "the advice")
        assert not any(map(scene.released, NAMES))
        assert any(held(scene).values()), "the devices are held meanwhile"
    scene.api.mend()
    with leading(scene):
        scene.api.wait(lambda: all(held_soon(scene).values()), "all devices to be held")
        scene.api.ask("DELETE", f"{GANGS}/llm")
        scene.api.wait(lambda: not any(held_soon(scene).values()), "the devices to be free")
        scene.api.wait(lambda: not items(scene, RULES), "the rules to be gone")


def test_without_a_device_class_no_claim_is_read(scene: Scene) -> None:
    """A cluster without devices costs no request for them."""
    scene.api.ask("DELETE", f"{ROOT}/deviceclasses/gpu")
    with leading(scene):
        scene.api.create(GANGS, gang())
        scene.api.create(PODS, *map(member, NAMES))
        scene.finish(*NAMES)
    asked = {each.path for each in scene.api.requests if each.path.startswith(ROOT)}
    assert asked <= {f"{ROOT}/deviceclasses"}
