"""Gangs and rivals that want the same devices, on a real control plane: no gang in part, no device for two claims.

rack r0: n0 n1      rack r1: n2 n3      each node: 4 devices, or 2 devices of 8Gi of which each claim consumes 3Gi

Four gangs of four members want all devices, and so do the rivals. How many races are run:

    PHALANX_DEVICE_RACES=200 pytest -s -m long tests/system/test_devices_raced.py
"""

import os
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from random import Random

import pytest
from device_scene import (
    DEVICES,
    GANGS,
    NODES,
    PODS,
    DeviceScene,
    History,
    Leader,
    device_scene,
    gang,
    member,
    pod,
    resource_slice,
    share_spec,
    slice_with_shared_devices,
)

from kube.quantities import exact

RACES = int(os.environ.get("PHALANX_DEVICE_RACES", "3"))
GANGS_RACING, MEMBERS, RIVALS = 4, 4, 200
ENDING = 20
"""How many rivals end after they were bound, so that devices become free while gangs and rivals wait."""
LATEST_SECONDS = 6.0
"""The longest time between the last member and the first rival. A gang is planned and held in two to six seconds."""
SETTLED_SECONDS = 900.0
"""Only a test that fails takes so long. A scheduler with 4 requests a second needs a minute to try all rivals once."""
pytestmark = [pytest.mark.controlplane, pytest.mark.long, pytest.mark.timeout(600 + 1000 * RACES)]


@pytest.fixture(
    scope="module",
    params=[(0, False), (4, False), (0, True), (4, True)],
    ids=["usual clients", "4 requests a second", "shares", "shares and 4 requests a second"],
)
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeviceScene]:
    """The control plane of this file. The parameter: how many requests a second the scheduler may send (0: as usual),
    and whether claims share the devices.
    """
    rate, shared = request.param
    more = {"kube-scheduler": (f"--kube-api-qps={rate}", f"--kube-api-burst={rate}")} if rate else {}
    audit = tmp_path_factory.mktemp("audit")
    slice_of = partial(slice_with_shared_devices, count=DEVICES // 2) if shared else resource_slice
    spec = share_spec("2500Mi") if shared else None
    with device_scene(audit, more=more, slice_of=slice_of, spec_of_claims=spec) as scene:
        yield scene


def test_no_gang_starts_in_part_and_no_device_is_doubled(lab: DeviceScene) -> None:
    results = Counter[str]()
    for seed in range(RACES):
        begun = time.monotonic()
        with lab.history() as history, Leader(lab):
            bound = race(lab, history, Random(seed))  # noqa: S311 - a seed is to be replayed
            assert history.whole, history.recorder.ending
        assert history.doubled == {}, seed
        assert max(history.most_consumed.values(), default=0) <= exact("8Gi"), seed
        assert set(bound) <= {0, MEMBERS}, (seed, bound)
        results.update({"races": 1, "whole gangs": bound.count(MEMBERS), "waiting gangs": bound.count(0)})
        print(f"seed {seed}: {dict(results)}, {time.monotonic() - begun:.0f} s", flush=True)  # noqa: T201 - the table of a long run
        lab.clear()


def race(scene: DeviceScene, history: History, random: Random) -> list[int]:
    """Let gangs and rivals race until nothing can change any more. Return how many members of each gang are bound."""
    names = [f"g{number}" for number in range(GANGS_RACING)]
    for name in names:
        scene.ask("POST", GANGS, gang(name, MEMBERS))
    members = [member(f"{name}-{number}", name) for name in names for number in range(MEMBERS)]
    rivals = [pod(f"rival-{number}", "") for number in range(RIVALS)]
    early = random.randrange(DEVICES)
    scene.create_shuffled([*rivals[:early], *members], seed=random.randrange(1000))
    time.sleep(random.uniform(0.0, LATEST_SECONDS))
    scene.create_shuffled(rivals[early:], seed=random.randrange(1000))
    ended = set[str]()

    def settled() -> bool:
        bound = scene.bound("")
        for name in [each for each in bound if each.startswith("rival") and each not in ended][: ENDING - len(ended)]:
            ended.add(name)
            scene.ask("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")
        gangs = [count_of(bound, name) == MEMBERS or not scene.holds(name) for name in names]
        return all(gangs) and len(bound) == len(history.now("")) == DEVICES * len(NODES)

    scene.wait(settled, "all devices to be taken, and each gang to be bound or to wait", SETTLED_SECONDS)
    bound = scene.bound("")
    return [count_of(bound, name) for name in names]


def count_of(bound: dict[str, str], name: str) -> int:
    """Return how many members of a gang are bound."""
    return len([each for each in bound if each.startswith(f"{name}-")])
