"""Statuses written to the real API server are read back unchanged. A lost field would be written again for ever."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gang_builders import gang, placed, pod, refused

from cluster.api.connecting import connect
from cluster.api.transport import MERGE_PATCH
from cluster.capturing import snapshot_of
from controller.gang_status import Notes, Phase, PresentObject, gang_status, invalid_status, status_patch
from controller.status.mirrors import differs, mirror_of
from controller.status.status_sync import topology_view
from controlplane.control_plane import ControlPlane
from gangs.koordinator.status import pod_group_status
from gangs.model import CapRule, Fault, Gang, MultipleRule, ObjectRef, PodSet, SliceRule, TogetherRule
from gangs.phalanx.status import domains_status
from kube.objects import Node, NodeStatus, ObjectMeta
from kube.topology import Level, Topology
from planning.decision import Decision

pytestmark = pytest.mark.controlplane

CRDS = Path(__file__).parents[2] / "manifests" / "crds"
NOW = "2026-11-21T09:00:00Z"
GATED = gang(pod("llm-0"), pod("llm-1", planned="node-6"))
PLAN = placed(GATED, "node-5", "node-6", victims=["low-5"])


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane) -> ControlPlane:
    """The API server with our kinds and Koordinator's."""
    for folder in ("phalanx", "koordinator"):
        control_plane.kubectl("apply", "-k", str(CRDS / folder))
    control_plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
    return control_plane


@pytest.fixture
def name(api: ControlPlane) -> Iterator[str]:
    """A name for one object, which is gone afterwards."""
    made = f"kept-{uuid.uuid4().hex[:8]}"
    yield made
    for kind in ("gangs.phalanx.dev", "topologies.phalanx.dev", "podgroups.scheduling.sigs.k8s.io"):
        api.kubectl("delete", kind, made, "--ignore-not-found")


def lone_mirror(name: str) -> dict[str, Any]:
    """A mirror without its owners, which do not exist here: the garbage collector would take it away."""
    return mirror_of(GATED, ("default", name)) | {"metadata": {"name": name, "namespace": "default"}}


CONTROLLER = ("--as=system:serviceaccount:phalanx-system:phalanx-controller", "--as-group=system:masters")
"""An earlier test may have left the policy that lets only the controller write the mark of a mirror."""


def made(api: ControlPlane, manifest: dict[str, Any], *by: str) -> dict[str, Any]:
    """Create the object, and return it as stored.

    :param by: kubectl options that name the user.
    """
    stored: dict[str, Any] = json.loads(api.kubectl("create", *by, "-o", "json", "-f", "-", stdin=json.dumps(manifest)))
    return stored


def written(api: ControlPlane, path: str, status: dict[str, Any]) -> Any:
    transport = connect(str(api.kubeconfig))
    return transport.request("PATCH", path, body={"status": status}, content_type=MERGE_PATCH)["status"]


STATUSES = [
    (Phase.WAITING, None),
    (Phase.UNPLACEABLE, refused(GATED)),
    (Phase.NOMINATED, PLAN),
    (Phase.EVICTING, PLAN),
    (Phase.PLACED, None),
]


@pytest.mark.parametrize(("phase", "decision"), STATUSES, ids=lambda each: getattr(each, "value", ""))
def test_a_gang_status_comes_back_as_it_was_written(
    api: ControlPlane, name: str, phase: Phase, decision: Decision | None
) -> None:
    made(api, lone_mirror(name))
    present, notes = PresentObject(generation=1), Notes(timed_out=True)
    wanted = gang_status(GATED, phase, now=NOW, decision=decision, plan_id="abc", present=present, notes=notes)
    stored = written(api, f"/apis/phalanx.dev/v1alpha1/namespaces/default/gangs/{name}/status", wanted)
    assert status_patch(stored, wanted) == {}


def test_each_status_can_replace_any_other(api: ControlPlane, name: str) -> None:
    made(api, lone_mirror(name))
    stored: dict[str, Any] = {}
    fault = Fault(ObjectRef("v1", "Pod", "default", "llm-1"), "spec.priority", "differs", "give all one")
    all_of_them = [gang_status(GATED, p, now=NOW, decision=d, plan_id="abc") for p, d in STATUSES]
    for wanted in (*all_of_them, invalid_status([fault], now=NOW), *reversed(all_of_them)):
        path = f"/apis/phalanx.dev/v1alpha1/namespaces/default/gangs/{name}/status"
        stored = written(api, path, status_patch(stored, wanted))
        assert stored == wanted


EVERYTHING = gang(
    pod_sets=(
        PodSet("prefill", 4, 4, "rack", "rack", (SliceRule("rack", 2),), (MultipleRule("rack", 2),)),
        PodSet("decode", 4, 2, max_per_domain=(CapRule("rack", 3),)),
    ),
    together=(TogetherRule(("prefill", "decode"), "block"),),
    topology="dc",
    queue="team-a",
    required="block",
    preferred="rack",
    schedule_timeout_seconds=600,
    minimum=6,
)


@pytest.mark.parametrize("of", [GATED, EVERYTHING], ids=["little", "everything"])
def test_a_mirror_that_was_written_does_not_differ_from_what_is_wanted(api: ControlPlane, name: str, of: Gang) -> None:
    wanted = mirror_of(of, ("default", name))
    assert not differs(made(api, wanted, *CONTROLLER), wanted)


def test_people_see_how_a_gang_stands(api: ControlPlane, name: str) -> None:
    made(api, lone_mirror(name))
    wanted = gang_status(GATED, Phase.NOMINATED, now=NOW, decision=PLAN, plan_id="abc")
    written(api, f"/apis/phalanx.dev/v1alpha1/namespaces/default/gangs/{name}/status", wanted)
    header, row = api.kubectl("get", "gangs.phalanx.dev", name).splitlines()
    assert header.split() == ["NAME", "PHASE", "PODS", "DOMAIN", "REASON", "AGE"]
    assert row.split()[:-1] == [name, "Nominated", "0/2", "spine-1", "RoomHeld"]


def test_a_topology_status_comes_back_as_it_was_written(api: ControlPlane, name: str) -> None:
    levels = (Level("rack", ("x/rack",)), Level("node", ("kubernetes.io/hostname",)))
    spec = {"levels": [{"name": "rack", "nodeLabel": "x/rack"}]}
    meta = {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Topology", "metadata": {"name": name}}
    made(api, {**meta, "spec": spec})
    allocatable = NodeStatus(allocatable={"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "8"})
    nodes = [
        Node(metadata=ObjectMeta(name=f"n-{i}", labels={"x/rack": f"r-{i % 2}"} if i else {}), status=allocatable)
        for i in range(4)
    ]
    view = topology_view(Topology(name, "Topology", levels), snapshot_of(nodes, []))
    wanted = domains_status(view, max_domains=2)
    assert {"domains", "outside", "omitted"} <= wanted.keys()
    stored = written(api, f"/apis/phalanx.dev/v1alpha1/topologies/{name}/status", wanted)
    assert status_patch(stored, wanted) == {}


def test_a_pod_group_status_comes_back_as_it_was_written(api: ControlPlane, name: str) -> None:
    meta = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": name}}
    made(api, {**meta, "spec": {"minMember": 2}})
    wanted = pod_group_status(2, [pod("a", node="n", phase="Running"), pod("b", node="n", phase="Failed")], now=NOW)
    path = f"/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/podgroups/{name}"
    assert status_patch(written(api, path, wanted), wanted) == {}
