"""A gang with `onFailure: Restart` that loses a member.

It restarts where there is capacity for the whole gang, or reports why it does not.

r1: n1 n2 n3 (n0 is full)      r2: n4 n5 n6      a member fills a node, and all must be in one rack
"""

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from asking import RACK
from node_manifests import node_manifest
from proxy import Proxy, Request
from system import Object, Phalanx, numbered, pod
from test_release_protocol import budget
from two_racks import apply_two_racks

from controlplane.recording import Recorder
from controlplane.running.stages import GOES_ON
from kube.keys import SYSTEM_NAMESPACE

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

MEMBERS = numbered("w", 3)
SOON = ("--restart-seconds", 1)
RACKS = {f"n{number}": "r1" if number < 4 else "r2" for number in range(7)}


@pytest.fixture
def controller_options() -> tuple[object, ...]:
    return SOON


@pytest.fixture
def racks(phalanx: Phalanx) -> Phalanx:
    """Three free nodes in each rack."""
    apply_two_racks(phalanx, 7)
    phalanx.submit(pod("full", cpu=6, nodeName="n0"))
    return phalanx


def gang(**spec: Any) -> Object:
    """Three in one rack, restarted as a whole."""
    return {
        "apiVersion": "phalanx.dev/v1alpha1",
        "kind": "Gang",
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {"minMember": 3, "required": "rack", "onFailure": "Restart", **spec},
    }


def template(**spec: Any) -> Object:
    """Return the template of the gang's pods, which fill a node each and run without end."""
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": {"cpu": "6"}}}
    metadata = {"labels": {"app": "w", "phalanx.dev/gang": "w"}, "annotations": {GOES_ON: "true"}}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def stateful_set() -> Object:
    """Return a StatefulSet that creates its pods all at once, and recreates them under their names."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {
            "replicas": 3,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": "w"}},
            "template": template(terminationGracePeriodSeconds=0),
        },
    }


def job(**spec: Any) -> Object:
    """Three pods at a time."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {"parallelism": 3, "template": template(restartPolicy="Never"), **spec},
    }


def placed(phalanx: Phalanx) -> dict[str, str]:
    """The nodes of the members that run, by name."""
    members = (each for each in phalanx.pods() if each["metadata"].get("labels", {}).get("app") == "w")
    staying = (each for each in members if "deletionTimestamp" not in each["metadata"])
    return {each["metadata"]["name"]: each["spec"]["nodeName"] for each in staying if each["spec"].get("nodeName")}


def in_one_rack(phalanx: Phalanx) -> str:
    """Wait until all three run; their rack."""
    phalanx.wait(lambda: len(placed(phalanx)) == len(MEMBERS), "all members to be bound")
    phalanx.await_phase("w", "Placed")
    (rack,) = {RACKS[node] for node in placed(phalanx).values()}
    return rack


def renamed(objects: list[Object], name: str) -> list[Object]:
    """The gang and its workload under another name."""
    text = json.dumps(objects).replace('"w"', json.dumps(name))
    found: list[Object] = json.loads(text)
    return found


def bound_of(phalanx: Phalanx, names: Sequence[str]) -> dict[str, str]:
    """The nodes of the members of these gangs that run, by name."""
    pods = (each for each in phalanx.pods() if each["metadata"]["name"].partition("-")[0] in names)
    staying = (each for each in pods if "deletionTimestamp" not in each["metadata"])
    return {each["metadata"]["name"]: each["spec"]["nodeName"] for each in staying if each["spec"].get("nodeName")}


def lose_one(phalanx: Phalanx) -> None:
    """Cordon the node of one member, and delete the member."""
    name, node = next(iter(placed(phalanx).items()))
    phalanx.cluster.kubectl("cordon", node)
    phalanx.cluster.kubectl("delete", "pod", name, "--force", "--grace-period=0")


def fill(phalanx: Phalanx, rack: str) -> None:
    """Fill all nodes of the rack but n0, so that it has no free capacity."""
    phalanx.submit(
        *(pod(f"full-{node}", cpu=6, nodeName=node) for node in RACKS if RACKS[node] == rack and node != "n0")
    )


def gone(recorder: Recorder) -> set[str]:
    """Pods that have left, or are about to."""
    return {
        each.name
        for each in recorder.events
        if each.type == "DELETED" or each.object["metadata"].get("deletionTimestamp")
    }


def reasons(phalanx: Phalanx) -> set[str]:
    """Of all events."""
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    return {each.get("reason", "") for each in phalanx.cluster.request("GET", path)["items"]}


def test_a_gang_that_cannot_be_mended_starts_anew_where_all_of_it_has_a_place(racks: Phalanx) -> None:
    racks.submit(gang(), stateful_set())
    before = in_one_rack(racks)
    racks.submit(pod("stranger", cpu=1, nodeName="n0"))
    with racks.record() as recorder:
        lose_one(racks)
        racks.wait(lambda: {RACKS[node] for node in placed(racks).values()} == {"r1", "r2"} - {before}, "another rack")
        assert in_one_rack(racks) != before
        assert gone(recorder) <= {*MEMBERS} | {name for name in gone(recorder) if name.startswith("probe-")}
    status = racks.status("w")
    assert status["restarts"] == 1
    assert "restarted" not in status["message"]
    racks.wait(lambda: {"GangRestarted", "MemberRestarted"} <= reasons(racks), "the events")


def test_a_gang_is_not_restarted_for_nothing(racks: Phalanx) -> None:
    racks.submit(gang(), stateful_set())
    rack = in_one_rack(racks)
    fill(racks, "r2" if rack == "r1" else "r1")
    lose_one(racks)
    why = "is not restarted as a whole: all its members together have no free place either"
    racks.wait(lambda: why in racks.status("w").get("message", ""), "the gang to say why")
    assert len(placed(racks)) == 2
    others = [each["metadata"]["name"] for each in racks.pods() if each["metadata"]["name"].startswith("full-")]
    racks.cluster.kubectl("delete", "pod", *others, "--force", "--grace-period=0")
    racks.wait(lambda: {RACKS[node] for node in placed(racks).values()} == {"r1", "r2"} - {rack}, "room to be used")
    in_one_rack(racks)


@pytest.mark.parametrize(
    ("objects", "why"),
    [
        ((gang(maxRestarts=0), stateful_set()), "spec.maxRestarts allows 0, and it has been restarted 0 times"),
        (
            (gang(), stateful_set(), budget("w", "w", 2)),
            "PodDisruptionBudget default/w allows 0 more evictions, and 2 are planned",
        ),
        (
            (gang(), job(backoffLimit=1)),
            "Job default/w would fail over 2 more evicted pods (spec.backoffLimit): have its spec.podFailurePolicy",
        ),
        ((gang(onFailure="Wait"), stateful_set()), ""),
    ],
)
def test_a_gang_stays_as_it_is_where_it_may_not_be_restarted(racks: Phalanx, objects: list[Object], why: str) -> None:
    racks.submit(*objects)
    in_one_rack(racks)
    lose_one(racks)
    status = racks.await_phase("w", "Unplaceable")
    racks.wait(lambda: why in racks.status("w").get("message", ""), "the gang to say why")
    assert len(placed(racks)) == 2
    assert ("is not restarted" in racks.status("w")["message"]) == bool(why)
    assert "restarts" not in status


def test_a_gang_that_can_be_mended_soon_is_not_restarted(racks: Phalanx) -> None:
    """The node of the lost member becomes schedulable before the gang has waited long enough."""
    racks.cluster.program("controller").kill()
    racks.deployment.start_controller(options=("--restart-seconds", 600))
    racks.submit(gang(), stateful_set())
    in_one_rack(racks)
    before, (_, node) = placed(racks), next(iter(placed(racks).items()))
    lose_one(racks)
    why = "is restarted as a whole if that stays so for 600 s and all together have a place"
    racks.wait(lambda: why in racks.status("w").get("message", ""), "the gang to say what comes")
    racks.cluster.kubectl("uncordon", node)
    in_one_rack(racks)
    assert placed(racks) == before


def test_two_gangs_are_not_promised_the_same_room(racks: Phalanx) -> None:
    """r1 and r2 hold one gang each, both lose a node, and the third rack holds one of them."""
    racks.submit(*(node_manifest(f"n{number}", {RACK: "r3"}) for number in range(7, 10)))
    racks.cluster.await_nodes(f"n{number}" for number in range(7, 10))
    fill_node = [pod(f"first-{number}", cpu=6, nodeName=f"n{number}") for number in range(7, 10)]
    racks.submit(*fill_node)
    gangs = ("w", "v")
    for name in gangs:
        racks.submit(*renamed([gang(), stateful_set()], name))
    racks.wait(lambda: len(bound_of(racks, gangs)) == 2 * len(MEMBERS), "both to be bound")
    for name in gangs:
        racks.await_phase(name, "Placed")
        member = f"{name}-0"
        racks.cluster.kubectl("cordon", bound_of(racks, gangs)[member])
        racks.cluster.kubectl("delete", "pod", member, "--force", "--grace-period=0")
        racks.await_phase(name, "Unplaceable")
    racks.cluster.kubectl(
        "delete", "pod", *(each["metadata"]["name"] for each in fill_node), "--force", "--grace-period=0"
    )
    third = {f"n{number}" for number in range(7, 10)}
    racks.wait(lambda: third == set(bound_of(racks, gangs).values()) & third, "one of them to be there")
    there = {name.partition("-")[0] for name, node in bound_of(racks, gangs).items() if node in third}
    (other,) = set(gangs) - there
    why = "is not restarted as a whole: all its members together have no free place either"
    racks.wait(lambda: why in racks.status(other).get("message", ""), "the other to say why it stays")
    assert len([name for name in bound_of(racks, gangs) if name.startswith(other)]) == 2


def test_a_job_that_bears_so_many_failed_pods_starts_anew(racks: Phalanx) -> None:
    racks.submit(gang(), job(backoffLimit=9))
    before = in_one_rack(racks)
    lose_one(racks)
    racks.wait(lambda: {RACKS[node] for node in placed(racks).values()} == {"r1", "r2"} - {before}, "another rack")
    assert in_one_rack(racks) != before


@contextlib.contextmanager
def controller_dies_at(phalanx: Phalanx, number: int, folder: Path) -> Iterator[None]:
    """Kill the controller at this eviction, which still takes effect; another controller continues."""
    phalanx.cluster.program("controller").kill()
    seen: list[str] = []
    with Proxy(phalanx.cluster.kubeconfig_for(SYSTEM_NAMESPACE, "phalanx-controller"), folder) as proxy:
        controller = phalanx.deployment.start_controller(proxy.kubeconfig(), SOON)

        def die(request: Request) -> None:
            if request.verb == "POST" and request.path.split("?")[0].endswith("/eviction"):
                seen.append(request.path)
                if len(seen) == number:
                    controller.kill()

        proxy.after = die
        yield
        phalanx.wait(lambda: len(seen) >= number, "the controller to die")
    phalanx.deployment.start_controller(options=SOON)


@pytest.mark.parametrize("number", [1, 2])
def test_a_controller_that_dies_amid_a_restart_leaves_no_half_gang(racks: Phalanx, number: int, tmp_path: Path) -> None:
    racks.submit(gang(), stateful_set())
    before = in_one_rack(racks)
    with controller_dies_at(racks, number, tmp_path):
        lose_one(racks)
    racks.wait(lambda: {RACKS[node] for node in placed(racks).values()} == {"r1", "r2"} - {before}, "another rack")
    assert in_one_rack(racks) != before
    assert racks.status("w")["restarts"] == 1
