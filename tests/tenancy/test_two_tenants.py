"""Nothing that one tenant may write touches another's gangs: running, waiting or arriving, in every dialect.

Refused, delayed, evicted, renamed, read, left silent: tenant b sees none of it, whatever tenant a writes.
"""

import contextlib
import http.client
import json
import re
import ssl
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

import later_writes
import pytest
import tenants
from tenants import DIALECTS, PATHS, PATIENCE, SIZE, A, B, Object, Tenant, gang, path_of, runs_on, spent

from controlplane.control_plane import ControlPlane, Options, wait_until
from controlplane.deployment import Deployment
from kube.keys import SYSTEM_NAMESPACE
from kube.placeholders import HELD_FOR

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(900), pytest.mark.long]

ALLOWED = 1.0
"""Seconds of the processor that the controller may spend more on gangs beside another tenant's objects. A gang that
arrives late is no fault of its own: a busy machine has it so.
"""
PREFIX = "b-secret"
"""Prefix of the names of tenant b's gangs. No other user writes it or may read it."""
HELD = f"{PREFIX}-held"
"""Tenant b's StatefulSet whose second pod is expected: capacity is reserved for it."""
ENORMOUS = 20
"""StatefulSets of tenant a, with as many expected pods as a gang may have."""


@dataclass
class Scene:
    """The cluster, its tenants, and the state of tenant b's gangs before tenant a wrote anything."""

    plane: ControlPlane
    a: Tenant
    b: Tenant
    webhook: str
    undisturbed: float = 0.0
    completed: float = 0.0
    """Seconds in which gangs started that had waited for their last pod, before tenant a wrote anything."""
    spent: float = 0.0
    """Seconds of the processor that the controller took for that."""
    running: dict[str, Object] = field(default_factory=dict)
    objects: dict[str, Object] = field(default_factory=dict)
    answers: list[Object] = field(default_factory=list)
    later: list[Object] = field(default_factory=list)
    """The API server's answers when tenant a changed, scaled, evicted and deleted her own objects."""
    withheld: list[Object] = field(default_factory=list)
    """The last pods of the gangs of the stage "waiting"."""
    placeholder: Object = field(default_factory=dict)


def named(stage: str) -> list[str]:
    """Names of tenant b's gangs of a stage."""
    return [f"{PREFIX}-{stage}-{dialect}" for dialect in DIALECTS]


def gangs(stage: str) -> dict[str, list[Object]]:
    return {f"{PREFIX}-{stage}-{each}": gang(each, f"{PREFIX}-{stage}-{each}", B) for each in DIALECTS}


def start(tenant: Tenant, stage: str) -> float:
    """Write a gang in every dialect; the seconds until all of them run."""
    for objects in gangs(stage).values():
        tenant.must_write(objects)
    return tenant.await_bound(named(stage))


def withhold(tenant: Tenant, stage: str) -> list[Object]:
    """Write a gang in every dialect but for the last pod, where it has pods of its own; those pods."""
    last = []
    for objects in gangs(stage).values():
        pods = objects[-1]["kind"] == "Pod"
        tenant.must_write(objects[:-1] if pods else objects)
        last += objects[-1:] if pods else []
    return last


def complete(tenant: Tenant, stage: str, withheld: list[Object]) -> float:
    """Write the last pods; the seconds until all of the stage run."""
    tenant.must_write(withheld)
    return tenant.await_bound(named(stage))


def described(scene: Scene, name: str) -> Object:
    """The object of tenant b that describes a gang: the first that was written for it."""
    first = next(objects[0] for stage in ("running", "waiting") for key, objects in gangs(stage).items() if key == name)
    found: Object = scene.b.api.request("GET", f"{path_of(first)}/{first['metadata']['name']}")
    return found


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """Tenant b's gangs run, or wait for one more pod; then tenant a writes all there is to write."""
    with ControlPlane(Options()) as plane:
        deployment = Deployment(plane, tenants.LEASE_SECONDS)
        deployment.install()
        deployment.start_webhook()
        deployment.start_controller()
        deployment.register_webhook()
        plane.add_nodes(tenants.nodes())
        made = Scene(plane, tenants.tenant(plane, A), tenants.tenant(plane, B), deployment.webhook_url())
        plane.apply(tenants.cluster_objects())
        _fill(made)
        yield made
        for name in ("controller", "webhook"):
            print(f"--- {name}\n{plane.program(name).tail()}")  # noqa: T201 - for the report of a failed test


def _fill(scene: Scene) -> None:
    start(scene.b, "running")
    before = spent(scene.plane)
    scene.undisturbed = start(scene.b, "control")
    scene.spent = spent(scene.plane) - before
    last = withhold(scene.b, "completed")
    _await_told(scene, scene.b, [name for name in named("completed") if not name.endswith(("-job", "-runai"))])
    scene.completed = complete(scene.b, "completed", last)
    scene.withheld = withhold(scene.b, "waiting")
    scene.b.must_write([tenants.held(HELD, B)])
    wait_until(lambda: len(placeholders(scene)) == 1, PATIENCE, "room to be held")
    (scene.placeholder,) = placeholders(scene)
    scene.running = {each["metadata"]["name"]: each for each in scene.b.pods() if each["spec"].get("nodeName")}
    _await_told(scene, scene.b, [name for name in named("waiting") if not name.endswith(("-job", "-runai"))])
    scene.objects = {each["metadata"]["name"]: each for each in scene.b.gangs()}
    victims = [(each, f"{PREFIX}-{stage}-{each}") for stage in ("running", "waiting") for each in DIALECTS]
    attacks = tenants.attacks(victims, lambda name: described(scene, name))
    owner = scene.b.api.request("GET", f"{PATHS['StatefulSet'].format(B)}/{HELD}")
    attacks += tenants.attacks_on_held_room(HELD, owner["metadata"]["uid"])
    written = zip(attacks, scene.a.write_all(attacks), strict=True)
    scene.answers += [answer | {"written": each} for each, answer in written]
    scene.later = later_writes.work(scene.a, victims)
    claims = [f"claim-{name}" for _, name in victims]
    _await_told(scene, scene.a, claims)


def _untold(tenant: Tenant, names: Iterable[str]) -> set[str]:
    """Return the names without a Gang object, or with one whose status has no phase."""
    return set(names) - {each["metadata"]["name"] for each in tenant.gangs() if each.get("status", {}).get("phase")}


def _await_told(scene: Scene, tenant: Tenant, names: Collection[str]) -> None:
    try:
        wait_until(lambda: not _untold(tenant, names), PATIENCE, "every gang to be shown")
    except TimeoutError as error:
        raise AssertionError(_untold(tenant, names), scene.plane.program("controller").tail()) from error


def placeholders(scene: Scene) -> list[Object]:
    """Return the nominated placeholders that reserve capacity for the second pod of tenant b's StatefulSet."""
    pods = scene.plane.request("GET", f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods")["items"]
    found = [each for each in pods if each["metadata"].get("annotations", {}).get(HELD_FOR) == f"{B}/{HELD}-1"]
    return [each for each in found if each["status"].get("nominatedNodeName")]


def foreign(scene: Scene) -> list[Object]:
    """Return everything that tenant b can read of gangs, pods and events in her namespace."""
    events = scene.b.items(f"/api/v1/namespaces/{B}/events")
    return [*scene.b.gangs(), *scene.b.pods(), *events]


def test_what_waited_starts_once_it_is_complete(scene: Scene) -> None:
    seconds = complete(scene.b, "waiting", scene.withheld)
    print(f"what waited: {scene.completed:.2f} s, beside tenant a {seconds:.2f} s")  # noqa: T201 - the figures


def test_what_arrives_is_neither_refused_nor_delayed(scene: Scene) -> None:
    """Measured by the clock, and by the controller's processor time."""
    before = spent(scene.plane)
    seconds = start(scene.b, "arriving")
    more = spent(scene.plane) - before - scene.spent
    print(f"what arrives: {scene.undisturbed:.2f} s, beside tenant a {seconds:.2f} s, {more:.2f} s of a core more")  # noqa: T201 - figures
    assert more <= max(ALLOWED, scene.spent)


def test_what_arrives_under_the_names_of_claims_is_neither_refused_nor_delayed(scene: Scene) -> None:
    """Tenant a has listed and claimed these names before tenant b uses them."""
    names = [f"{PREFIX}-squatted-{each}" for each in DIALECTS]
    for dialect, name in zip(DIALECTS, names, strict=True):
        stranger = tenants.attacks([(dialect, name)], lambda _: described(scene, named("running")[0]))
        for each in stranger:
            scene.a.write(each)
    for dialect, name in zip(DIALECTS, names, strict=True):
        scene.b.must_write(gang(dialect, name, B))
    scene.b.await_bound(names)


def test_room_that_is_held_stays_held_and_the_pod_for_it_gets_it(scene: Scene) -> None:
    (now,) = placeholders(scene)
    assert now["metadata"]["uid"] == scene.placeholder["metadata"]["uid"]
    node = now["status"]["nominatedNodeName"]
    assert node == scene.placeholder["status"]["nominatedNodeName"]
    conditions = [{"type": each, "status": "True"} for each in ("Ready", "ContainersReady")]
    ready = json.dumps({"status": {"conditions": conditions}})
    scene.plane.kubectl("patch", "pod", f"{HELD}-0", "-n", B, "--subresource=status", "--type=strategic", "-p", ready)
    scene.b.await_bound([HELD])
    (second,) = (each for each in scene.b.bound(HELD) if each["metadata"]["name"] == f"{HELD}-1")
    assert second["spec"]["nodeName"] == node
    wait_until(lambda: not placeholders(scene), PATIENCE, "the placeholder to go")


def test_who_names_the_holder_of_room_in_a_namespace_of_his_own_holds_none(scene: Scene) -> None:
    """Pods of tenant a that call themselves placeholders are treated as ordinary pods.

    They are admitted, or gated for what their gang lacks.
    """
    mine = {each["metadata"]["name"]: each for each in scene.a.pods()}
    assert mine["held-there-right"]["spec"]["nodeName"] == "n11"
    for each in mine.values():
        assert not each["metadata"]["name"].startswith("placeholder-")
    path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods"
    assert scene.a.api.request("GET", path)["reason"] == "Forbidden"
    forged = tenants.pod("placeholder-forged", SYSTEM_NAMESPACE)
    assert scene.a.api.request("POST", path, forged)["reason"] == "Forbidden"


def test_gangs_as_large_as_anybody_may_ask_for_delay_nobody(scene: Scene) -> None:
    before = start(scene.b, "before-enormous")
    scene.a.must_write(tenants.enormous(ENORMOUS))
    names = [f"enormous-{each}" for each in range(ENORMOUS)]
    _await_told(scene, scene.a, names)
    beside = start(scene.b, "beside-enormous")
    print(f"{before:.2f} s, beside {ENORMOUS} enormous gangs {beside:.2f} s")  # noqa: T201 - the figures


def test_what_ran_runs_on_where_it_was(scene: Scene) -> None:
    runs_on(scene.running, scene.b.pods())


def test_gang_objects_keep_their_names_and_say_what_they_said(scene: Scene) -> None:
    """The Gang object of a finished Job is deleted with the Job."""
    now = {each["metadata"]["name"]: each for each in scene.b.gangs()}
    for name, before in scene.objects.items():
        if name not in now and name.endswith(("-job", "-runai")):
            continue
        assert now[name]["metadata"]["uid"] == before["metadata"]["uid"]
        assert now[name]["spec"] == before["spec"]
        assert now[name]["metadata"].get("annotations") == before["metadata"].get("annotations")


def test_nothing_of_one_tenant_is_told_to_the_other(scene: Scene) -> None:
    told_b = json.dumps(foreign(scene))
    assert A not in told_b
    assert "FORGED" not in told_b
    hers = scene.a.pods()
    theirs = [*scene.a.gangs(), *scene.a.items(f"/api/v1/namespaces/{A}/events"), *scene.answers, *scene.later]
    messages = [str(each.get("message", "")) for each in theirs]
    messages += [str(each.get("status", {}).get("message", "")) for each in scene.a.gangs()]
    messages += [told.get("message", "") for each in hers for told in each["status"].get("conditions", ())]
    names = {each["metadata"]["name"] for each in scene.b.pods()} | set(scene.running)
    assert len(names) >= 3 * len(DIALECTS)
    named_by_a = "\n".join(each.get("asked", "") for each in scene.later) + json.dumps(hers)
    unknown = {each for each in names if each not in named_by_a}
    assert len(unknown) >= len(DIALECTS)
    words = {word.rstrip(".,:;") for each in messages for word in re.split(r"[\s/\"']", each)}
    assert words & unknown == set()


def test_every_claim_is_told_to_its_author(scene: Scene) -> None:
    gangs_of_a = {each["metadata"]["name"]: each.get("status", {}) for each in scene.a.gangs()}
    for stage in ("running", "waiting"):
        for name in named(stage):
            assert gangs_of_a[f"claim-{name}"]["phase"] == "Waiting"
            assert f"Namespace {B} to share its groups with {A}" in gangs_of_a[f"claim-{name}"]["message"]


def test_what_tenant_a_changes_later_is_hers_alone_and_mostly_taken(scene: Scene) -> None:
    """The suite proves little if most writes are refused. Other tests check that tenant b is not affected."""
    failed = [each for each in scene.later if each["kind"] == "Status" and each.get("code", 200) >= 500]
    assert failed == []
    for method in ("POST", "PATCH", "PUT", "DELETE"):
        asked = [each for each in scene.later if each["asked"].startswith(f"{method} ")]
        taken = [each for each in asked if each["kind"] != "Status" or each.get("status") == "Success"]
        assert len(taken) > len(asked) / 3, (method, [each.get("message") for each in asked][:9])
    for word in ("/scale", "/eviction", "/replicasets", "/replicationcontrollers", "/cronjobs"):
        answers = [each for each in scene.later if word in each["asked"]]
        assert any(each["kind"] != "Status" or each.get("status") == "Success" for each in answers), (word, answers[:3])


@pytest.mark.parametrize("method", ["PATCH", "PUT", "DELETE", "eviction", "scale"])
def test_what_is_tenant_bs_is_not_for_tenant_a(scene: Scene, method: str) -> None:
    name = next(iter(scene.running))
    path = f"{PATHS['Pod'].format(B)}/{name}"
    meta = {"apiVersion": "v1", "metadata": {"name": name, "namespace": B}}
    asked = {
        "eviction": ("POST", f"{path}/eviction", {**meta, "apiVersion": "policy/v1", "kind": "Eviction"}),
        "scale": ("PATCH", f"{PATHS['StatefulSet'].format(B)}/{HELD}/scale", {"spec": {"replicas": 0}}),
    }
    verb, where, body = asked.get(method, (method, path, {**meta, "kind": "Pod"}))
    content_type = "application/merge-patch+json" if verb == "PATCH" else "application/json"
    assert scene.a.api.request(verb, where, body, content_type)["reason"] == "Forbidden"


def test_a_mirror_cannot_be_forged(scene: Scene) -> None:
    forged = [each for each in scene.answers if "phalanx.dev/mirrors" in json.dumps(each["written"])]
    assert len(forged) == 6 * 2 * len(DIALECTS)
    assert {each["kind"] for each in forged} == {"Status"}
    assert all("is written by the controller of Phalanx alone" in each["message"] for each in forged)
    own = tenants.made("phalanx.dev/v1alpha1", "Gang", "plain", A, minMember=2, topology="own")
    scene.a.must_write([own])
    path = f"{path_of(own)}/plain"
    claim = {"metadata": {"annotations": {"phalanx.dev/mirrors": f"koordinator/{B}/x"}}}
    answer = scene.a.api.request("PATCH", path, claim, "application/merge-patch+json")
    assert "is written by the controller of Phalanx alone" in answer["message"], answer
    answer = scene.a.api.request("PATCH", path, {"spec": {"minMember": 3}}, "application/merge-patch+json")
    assert answer["kind"] == "Gang", answer["message"]
    marked = {"status": {"mirrors": f"koordinator/{B}/x"}}
    answer = scene.a.api.request("PATCH", f"{path}/status", marked, "application/merge-patch+json")
    assert answer["code"] == http.HTTPStatus.FORBIDDEN, answer


def test_a_mirror_of_ones_own_keeps_its_mark(scene: Scene) -> None:
    """A user with the role `edit` may delete the mirrors in the namespace, and the controller recreates them.

    The user may not take a mirror over.
    """
    name = named("running")[DIALECTS.index("koordinator")]
    path = f"{PATHS['Gang'].format(B)}/{name}"
    change = {"metadata": {"annotations": {"phalanx.dev/mirrors": None}}}
    answer = scene.b.api.request("PATCH", path, change, "application/merge-patch+json")
    assert answer["reason"] == "Forbidden", answer
    assert scene.b.api.request("GET", path)["status"]["mirrors"] == f"koordinator/{B}/{name}"


def test_where_no_policy_keeps_them_out_forged_mirrors_move_nothing(scene: Scene) -> None:
    """The controller's own check, without the API server's help."""
    scene.plane.kubectl("delete", "validatingadmissionpolicybinding", "phalanx-mirrors")
    try:
        wait_until(lambda: _forge(scene), PATIENCE, "the policy to be gone")
        name = f"{PREFIX}-unguarded"
        scene.b.must_write(gang("phalanx", f"{name}-own", B))
        for space in (A,):
            for each in (f"{name}-own", name, f"podgroup-{name}"):
                forged = tenants.made("phalanx.dev/v1alpha1", "Gang", each, space, minMember=7)
                scene.a.write(tenants.with_annotations(forged, **{"phalanx.dev/mirrors": f"koordinator/{B}/{name}"}))
        beside = tenants.made("phalanx.dev/v1alpha1", "Gang", name, B, minMember=7)
        beside = tenants.with_annotations(beside, **{"phalanx.dev/mirrors": f"koordinator/{B}/{name}"})
        scene.b.must_write([beside])
        scene.b.must_write(gang("koordinator", name, B))
        scene.b.await_bound([name, f"{name}-own"])
        mirror = f"podgroup-{name}"
        wait_until(lambda: not _untold(scene.b, [mirror]), PATIENCE, "its mirror to be shown")
        found = {each["metadata"]["name"]: each for each in scene.b.gangs()}
        assert found[name]["spec"]["minMember"] == 7
        assert "status" not in found[name]
        assert found[mirror]["status"]["mirrors"] == f"koordinator/{B}/{name}"
        assert found[f"{name}-own"]["spec"] == gang("phalanx", f"{name}-own", B)[0]["spec"]
        scene.b.api.request("DELETE", path_of(gang("koordinator", name, B)[0]) + f"/{name}")
        scene.plane.kubectl("delete", "pod", "-n", B, *(f"{name}-{index}" for index in range(SIZE)), "--wait=false")
        wait_until(lambda: not any(_is(each, mirror) for each in scene.b.gangs()), PATIENCE, "its mirror to go")
        assert {name, f"{name}-own"} <= {each["metadata"]["name"] for each in scene.b.gangs()}
        assert len([each for each in scene.a.gangs() if name in each["metadata"]["name"]]) == 3
    finally:
        scene.plane.apply(_binding())


def _is(manifest: Object, name: str) -> bool:
    return bool(manifest["metadata"]["name"] == name)


def _forge(scene: Scene) -> bool:
    forged = tenants.made("phalanx.dev/v1alpha1", "Gang", "tried", A, minMember=1)
    forged = tenants.with_annotations(forged, **{"phalanx.dev/mirrors": f"kai/{B}/nothing"})
    answer = scene.a.api.request("POST", f"{path_of(forged)}?dryRun=All", forged)
    return bool(answer["kind"] == "Gang")


def _binding() -> list[Object]:
    from cli.installation.installed_objects import system_objects  # noqa: PLC0415 - for this one test

    return [each for each in system_objects() if each["metadata"]["name"] == "phalanx-mirrors"]


def test_a_stranger_at_the_port_learns_no_names(scene: Scene) -> None:
    """Any client that reaches the webhook may request a forecast for a gang of high priority.

    Such a gang would evict tenant b's pods. The answer must not name them.
    """
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    scene.plane.apply([high])
    spy = tenants.job("spy", "nowhere", annotations={"phalanx.dev/gang": "true", "phalanx.dev/topology": "own"})
    pods = spy["spec"]["template"]
    pods["metadata"] = {"labels": {"phalanx.dev/workload": "Job"}}
    pods["spec"] |= {"priorityClassName": "high", "priority": 9}
    pods["spec"]["containers"][0]["resources"] = {"requests": {"cpu": str(tenants.CPU - 2)}}
    spy["spec"] |= {"parallelism": 12, "completions": 12}
    resource = {"group": "batch", "version": "v1", "resource": "jobs"}
    request = {"uid": "u", "operation": "CREATE", "resource": resource, "namespace": "nowhere", "object": spy}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}

    def told() -> str:
        trust = ssl.create_default_context()
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
        address = scene.webhook.removeprefix("https://")
        with contextlib.closing(http.client.HTTPSConnection(address, timeout=120, context=trust)) as connection:
            connection.request("POST", "/validate?timeout=5s", json.dumps(review), {"Content-Type": "application/json"})
            return " ".join(json.loads(connection.getresponse().read())["response"].get("warnings", []))

    wait_until(lambda: "after evicting" in told(), PATIENCE, "a plan that evicts")
    assert PREFIX not in told()
    assert B not in told()


def test_nobody_forges_a_line_of_the_log(scene: Scene) -> None:
    wait_until(lambda: "FORGED" in _log(scene), PATIENCE, "the controller to tell of what was written")
    lines = [each for each in _log(scene).splitlines() if "FORGED" in each]
    assert all(each.isprintable() and " controller." in each.partition("FORGED")[0] for each in lines), lines


def _log(scene: Scene) -> str:
    return (scene.plane.directory / "controller.log").read_text()


def test_the_rights_are_what_the_tenants_should_have(scene: Scene) -> None:
    """The suite would prove little if they could not write."""
    for verb, what, answer in (
        ("create", ["gangs.phalanx.dev"], "yes"),
        ("create", ["podgroups.scheduling.sigs.k8s.io"], "yes"),
        ("patch", ["gangs.phalanx.dev", "--subresource=status"], "no"),
        ("patch", ["pods", "--subresource=status"], "no"),
        ("patch", ["namespaces"], "no"),
    ):
        said = scene.plane.kubectl(
            "auth", "can-i", verb, *what, "-n", A, f"--as=system:serviceaccount:{A}:tenant", check=False
        )
        assert answer in said.split(), (verb, what, said)
    written = [each for each in scene.answers if each["kind"] == each["written"]["kind"]]
    assert len(written) > len(scene.answers) / 3
