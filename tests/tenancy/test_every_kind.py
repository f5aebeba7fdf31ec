"""Workloads of every operator's kind, and objects with meaningless values, beside another tenant's gangs.

They do not touch other users' gangs, no reconcile of the controller fails over them, and no request is an internal
error.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

import odd_objects
import pytest
import tenants
from foreign_kinds import definition
from odd_objects import OPERATED, WRITTEN, operated, workload
from tenants import PATIENCE, A, B, Object, Tenant, path_of, runs_on, spent
from workload_operators import described

from controlplane.control_plane import ControlPlane, Options, wait_until
from controlplane.definitions import define
from controlplane.deployment import Deployment

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(900), pytest.mark.long]

MEMBERS = 4
ALLOWED = 1.0
"""Seconds by which a gang may start later beside another tenant's objects, including the delays of a busy machine."""
DESCRIBED = "trainingruns.ml.example.com"


@dataclass
class Scene:
    """The cluster, its tenants, and the state of tenant b's gangs before tenant a wrote anything."""

    plane: ControlPlane
    a: Tenant
    b: Tenant
    undisturbed: float = 0.0
    completed: float = 0.0
    """Seconds until the workloads started after their last object arrived, before tenant a wrote anything."""
    spent: float = 0.0
    """Seconds of the processor that the controller took for that."""
    running: dict[str, Object] = field(default_factory=dict)
    gangs: dict[str, Object] = field(default_factory=dict)
    withheld: list[Object] = field(default_factory=list)
    """The last object of each workload of the stage "waiting"."""
    answers: list[tuple[Object, Object]] = field(default_factory=list)
    """The objects that tenant a wrote, each with the API server's answer."""


def described_kind() -> list[Object]:
    """The definition of an invented operator's kind, and the right to read it."""
    open_schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": open_schema}}
    names = {"kind": "TrainingRun", "plural": "trainingruns", "singular": "trainingrun", "listKind": "TrainingRunList"}
    spec: Object = {"group": "ml.example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    reading = {"apiGroups": ["ml.example.com"], "resources": ["trainingruns"], "verbs": ["list", "watch"]}
    role = {"name": "reads-training-runs", "labels": {"phalanx.dev/aggregate-to-workload-kinds": "true"}}
    return [
        tenants.made("apiextensions.k8s.io/v1", "CustomResourceDefinition", DESCRIBED, **spec),
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": role, "rules": [reading]},
    ]


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """Tenant b's workloads run, or wait for their last object; then tenant a writes all there is to write."""
    kinds = {(row.group, row.kind): row.version for name, row in WRITTEN.items() if name != "TrainingRun"}
    with ControlPlane(Options()) as plane:
        define(plane, "tests", [definition(*of, each) for of, each in kinds.items()])
        plane.apply(described_kind())
        plane.kubectl("wait", "--for=condition=established", f"crd/{DESCRIBED}")
        deployment = Deployment(plane, tenants.LEASE_SECONDS)
        deployment.install()
        plane.apply([described()])
        deployment.start_webhook()
        deployment.start_controller()
        deployment.register_webhook()
        plane.add_nodes(tenants.nodes())
        first, second = (tenants.tenant(plane, name, odd_objects.rights()) for name in (A, B))
        made = Scene(plane, first, second)
        plane.apply(tenants.cluster_objects())
        wait_until(lambda: _in_force(plane), PATIENCE, "the described kind to be in force")
        _fill(made)
        yield made
        for name in ("controller", "webhook"):
            print(f"--- {name}\n{plane.program(name).tail()}")  # noqa: T201 - for the report of a failed test


def _in_force(plane: ControlPlane) -> bool:
    found = plane.request("GET", f"/apis/phalanx.dev/v1alpha1/workloadkinds/{DESCRIBED}")
    conditions = found.get("status", {}).get("conditions", [{}])
    return bool(conditions[0].get("status") == "True")


def named(stage: str) -> Mapping[str, str]:
    """The names of tenant b's workloads of a stage, by kind."""
    return {kind: f"b-secret-{stage}-{''.join(filter(str.isalpha, kind.lower()))}" for kind in OPERATED}


def stored(scene: Scene, kind: str, name: str) -> Object:
    """Tenant b's workload as the API server has it."""
    found: Object = scene.b.api.request("GET", f"{path_of(workload(OPERATED[kind], name, B))}/{name}")
    return found


def write(scene: Scene, stage: str) -> list[list[Object]]:
    """Write tenant b's workloads; return the objects that their operators create, in order."""
    scene.b.must_write(workload(OPERATED[kind], name, B) for kind, name in named(stage).items())
    return [operated(OPERATED[kind], stored(scene, kind, name)) for kind, name in named(stage).items()]


def start(scene: Scene, stage: str) -> float:
    """Have a workload of every kind run; the seconds that it takes from the last object on."""
    for objects in write(scene, stage):
        scene.b.must_write(objects)
    return await_running(scene, stage)


def withhold(scene: Scene, stage: str) -> list[Object]:
    """Write a workload of every kind without its last object; return these objects once each gang reports a message."""
    last = []
    for *first, final in write(scene, stage):
        scene.b.must_write(first)
        last.append(final)
    waiting = set(named(stage).values())
    wait_until(lambda: all(told(scene).get(each) for each in waiting), PATIENCE, "what waits to be told")
    return last


def complete(scene: Scene, stage: str, withheld: list[Object]) -> float:
    """Write the last objects; the seconds until all of the stage run."""
    scene.b.must_write(withheld)
    return await_running(scene, stage)


def running(scene: Scene, stage: str) -> dict[str, Object]:
    """The pods of tenant b's workloads of a stage that have a node, by name."""
    names = tuple(named(stage).values())
    pods = (each for each in scene.b.pods() if each["metadata"]["name"].startswith(names))
    return {each["metadata"]["name"]: each for each in pods if each["spec"].get("nodeName")}


def await_running(scene: Scene, stage: str) -> float:
    """Wait until all of them run; the seconds that it takes."""
    started = time.monotonic()
    try:
        wait_until(lambda: len(running(scene, stage)) == MEMBERS * len(OPERATED), PATIENCE, f"{stage} to run")
    except TimeoutError as error:
        raise AssertionError(sorted(running(scene, stage)), told(scene)) from error
    return time.monotonic() - started


def told(scene: Scene) -> dict[str, str]:
    """Return the status messages of tenant b's gangs, by name."""
    return {each["metadata"]["name"]: each.get("status", {}).get("message", "") for each in scene.b.gangs()}


def _fill(scene: Scene) -> None:
    start(scene, "running")
    before = spent(scene.plane)
    scene.undisturbed = start(scene, "control")
    scene.spent = spent(scene.plane) - before
    scene.completed = complete(scene, "completed", withhold(scene, "completed"))
    scene.withheld = withhold(scene, "waiting")
    scene.running = {name: each for stage in ("running", "control") for name, each in running(scene, stage).items()}
    scene.gangs = {each["metadata"]["name"]: each for each in scene.b.gangs()}
    victims = [
        {kind: stored(scene, kind, name) for kind, name in named(stage).items()} for stage in ("running", "waiting")
    ]
    for each in (
        odd_objects.odd_groups(),
        odd_objects.odd_pods(),
        *map(odd_objects.claimants, victims),
        odd_objects.odd_workloads(),
        odd_objects.beside_gangs(),
    ):
        table = list(each)
        scene.answers += zip(table, scene.a.write_all(table), strict=True)


def test_what_waited_starts_once_it_is_complete(scene: Scene) -> None:
    seconds = complete(scene, "waiting", scene.withheld)
    print(f"what waited: {scene.completed:.2f} s, beside tenant a {seconds:.2f} s")  # noqa: T201 - figures


def test_what_arrives_is_neither_refused_nor_delayed(scene: Scene) -> None:
    """Measured by the clock, and by the controller's processor time, which a busy machine does not change."""
    before = spent(scene.plane)
    seconds = start(scene, "arriving")
    more = spent(scene.plane) - before - scene.spent
    print(f"what arrives: {scene.undisturbed:.2f} s, beside tenant a {seconds:.2f} s, {more:.2f} s of a core more")  # noqa: T201
    assert more <= max(ALLOWED, scene.spent)


def test_a_gang_of_a_higher_class_takes_free_room_and_nobodys(scene: Scene) -> None:
    """Every tenant may use the administrators' priority class."""
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    scene.plane.apply([high])
    above = tenants.job("above", A, annotations={"phalanx.dev/gang": "true", "phalanx.dev/topology": "own"})
    above["spec"]["template"]["spec"]["priorityClassName"] = "high"
    scene.a.must_write([above])
    scene.a.await_bound(["above"])


def test_what_ran_runs_on_where_it_was(scene: Scene) -> None:
    runs_on(scene.running, scene.b.pods())


def test_gang_objects_stay_what_they_were(scene: Scene) -> None:
    now = {each["metadata"]["name"]: each for each in scene.b.gangs()}
    assert len(scene.gangs) == 4 * len(OPERATED)
    for name, before in scene.gangs.items():
        assert now[name]["metadata"]["uid"] == before["metadata"]["uid"]
        assert now[name]["spec"] == before["spec"]


def test_nothing_of_one_tenant_is_told_to_the_other(scene: Scene) -> None:
    events = {each: scene.plane.request("GET", f"/api/v1/namespaces/{each}/events")["items"] for each in (A, B)}
    theirs = json.dumps([*scene.b.gangs(), *scene.b.pods(), *events[B]])
    assert A not in theirs
    assert "FORGED" not in theirs
    messages = [each.get("status", {}).get("message", "") for each in scene.a.gangs()]
    messages += [each.get("message", "") for each in events[A]]
    assert [each for each in messages if B in each] == []


def test_what_is_written_is_taken_or_refused_with_a_reason(scene: Scene) -> None:
    for written, answer in scene.answers:
        if answer["kind"] == "Status":
            assert answer["code"] < HTTPStatus.INTERNAL_SERVER_ERROR, (written["metadata"], answer)
            assert answer["message"]
            assert "b-secret" not in answer["message"].replace(written["metadata"]["name"], "")
    taken = [answer for _, answer in scene.answers if answer["kind"] != "Status"]
    assert len(taken) > len(scene.answers) / 3


@pytest.mark.parametrize("manifest", odd_objects.FORBIDDEN, ids=lambda each: f"{each['kind']} {each['apiVersion']}")
def test_what_others_are_planned_by_is_not_for_tenants(scene: Scene, manifest: Object) -> None:
    assert scene.a.write(manifest).get("reason") == "Forbidden"


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"labels": {"phalanx.dev/gang": "other"}}},
        {"metadata": {"labels": {"phalanx.dev/dialect": "kueue"}}},
        {"metadata": {"labels": {"phalanx.dev/dialect": None, "phalanx.dev/gang": None}}},
        {"metadata": {"annotations": {"phalanx.dev/plan": "x", "phalanx.dev/planned-node": "no-such-node"}}},
        {"metadata": {"annotations": {"phalanx.dev/pinned-domain": "=;==\n,", "phalanx.dev/released": "yesterday"}}},
        {"spec": {"schedulingGates": []}},
    ],
    ids=str,
)
def test_a_member_that_its_author_spoils_stops_nobody(scene: Scene, change: Object) -> None:
    name = f"spoilt-{abs(hash(str(change)))}"
    mine = tenants.made("phalanx.dev/v1alpha1", "Gang", name, A, minMember=2, topology="own")
    member = tenants.pod(f"{name}-0", A, labels={"phalanx.dev/gang": name})
    scene.a.must_write([mine, member])
    scene.a.api.request("PATCH", f"{path_of(member)}/{name}-0", change, "application/merge-patch+json")
    theirs = tenants.gang("phalanx", f"b-secret-{name}", B)
    scene.b.must_write(theirs)
    scene.b.await_bound([f"b-secret-{name}"])


def test_no_round_failed_and_no_line_was_forged(scene: Scene) -> None:
    for server in ("controller", "webhook"):
        log = (scene.plane.directory / f"{server}.log").read_text()
        assert re.findall(r".*(?:Traceback|round failed|cannot be told|cannot be planned).*", log) == []
        assert all(each.isprintable() for each in log.splitlines())
