"""The controller is killed (SIGKILL) before and after every kind of write. A new controller reaches the same result."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from proxy import Proxy, Request
from system import GUIDE, Phalanx, all_bound, numbered

from controller.acting.probe import PROBE
from controlplane.recording import bound
from kube.keys import SYSTEM_NAMESPACE

pytestmark = pytest.mark.controlplane

MEMBERS = numbered("hp-training-pod", 4)
PLANNED = {name: f"node-{5 + index}" for index, name in enumerate(MEMBERS)}

Match = Callable[[Request], bool]


def creates_mirror(request: Request) -> bool:
    """The Gang object that mirrors the PodGroup."""
    return request.verb == "POST" and request.path.split("?")[0].endswith("/gangs")


def records_plan(request: Request) -> bool:
    """The plan, in the Gang's status."""
    return request.path.split("?")[0].endswith("high-priority-training/status") and bool(
        request.body["status"].get("planId")
    )


def nominates(member: str) -> Match:
    """The nomination of one member."""
    return lambda r: f"/pods/{member}/status" in r.path and bool(r.body["status"].get("nominatedNodeName"))


def evicts(*, dry_run: bool) -> Match:
    """The eviction of the victim, or its rehearsal."""
    return lambda r: r.path.split("?")[0].endswith("/eviction") and ("dryRun" in r.path) is dry_run


def probes(request: Request) -> bool:
    """The probe."""
    is_pod = request.verb == "POST" and request.path.split("?")[0].endswith(f"{SYSTEM_NAMESPACE}/pods")
    return is_pod and PROBE in request.body["metadata"]["labels"]


def releases(member: str) -> Match:
    """The patch that takes the gate of one member away."""
    return lambda r: r.verb == "PATCH" and r.path.split("?")[0].endswith(f"/pods/{member}")


STEPS: dict[str, Match] = {
    "mirror": creates_mirror,
    "plan": records_plan,
    "first nomination": nominates("hp-training-pod-0"),
    "last nomination": nominates("hp-training-pod-3"),
    "rehearsed eviction": evicts(dry_run=True),
    "eviction": evicts(dry_run=False),
    "probe": probes,
    "first release": releases("hp-training-pod-0"),
    "last release": releases("hp-training-pod-3"),
}


def low_priority_pods(test: str) -> list[dict[str, Any]]:
    """The guide's, under names of a test's own: kwok ends a pod by name, now and then when the pod of the next test has
    that name.
    """
    pods = list(yaml.safe_load_all((GUIDE / "low-priority-pods.yaml").read_text()))
    for pod in pods:
        pod["metadata"]["name"] = f"{test}-{pod['metadata']['name']}"
    return pods


USUAL = {("first release", "after")}
"""The moment of `make test`: the next leader finds a gang that is released in part. The other moments are in every run
of `tests/controller/test_writes_that_fail.py` and of the simulation.
"""
MOMENTS = [
    pytest.param(step, moment, marks=[] if (step, moment) in USUAL else pytest.mark.long)
    for step in STEPS
    for moment in ("before", "after")
]


@pytest.mark.parametrize(("step", "moment"), MOMENTS)
def test_a_controller_killed_there_is_followed_by_one_that_reaches_the_same_end(
    phalanx: Phalanx, tmp_path: Path, step: str, moment: str
) -> None:
    victim = f"{step.replace(' ', '-')}-{moment}-low-priority-pod-5"
    phalanx.guide_nodes()
    phalanx.apply_files(GUIDE / "priorityclasses.yaml")
    phalanx.submit(*low_priority_pods(victim.removesuffix("-low-priority-pod-5")))
    phalanx.wait(lambda: all(p["status"]["phase"] == "Running" for p in phalanx.pods()), "the low-priority pods")
    phalanx.cluster.program("controller").kill()
    with Proxy(phalanx.cluster.kubeconfig_for(SYSTEM_NAMESPACE, "phalanx-controller"), tmp_path) as proxy:
        doomed = phalanx.deployment.start_controller(proxy.kubeconfig())
        killed: list[str] = []

        def kill(request: Request) -> None:
            if not killed and STEPS[step](request):
                killed.append(request.path)
                doomed.kill()

        setattr(proxy, moment, kill)
        with phalanx.record() as recorder:
            phalanx.apply_files(GUIDE / "high-priority-training.yaml")
            phalanx.wait(lambda: not doomed.running, f"the controller to reach: {step}")
            phalanx.deployment.start_controller()
            events = recorder.wait_for(all_bound(MEMBERS))
    assert killed
    assert {e.name: bound(e) for e in events if e.name in MEMBERS and bound(e)} == PLANNED
    gone = {e.name for e in events if e.object["metadata"].get("deletionTimestamp") and "low-priority" in e.name}
    assert gone == {victim}
    let_go = [i for i, e in enumerate(events) if e.name in MEMBERS and not e.object["spec"].get("schedulingGates")]
    ended = next(i for i, e in enumerate(events) if e.name == victim and e.type == "DELETED")
    assert ended < let_go[0]
