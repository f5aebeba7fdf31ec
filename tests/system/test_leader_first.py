"""Workloads that make their later pods only when earlier ones run: capacity is reserved for pods that do not exist yet.

Racks r1: n0, n1, n2, n3; r2: n4. A pod fills a node, so that a gang of three fits in r1 alone. The StatefulSet's
controller is the real one: it makes the next pod when the one before is ready, and the test says when that is.
"""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from leader_first import NAMES, await_held, held, make_ready, number_of, placeholders, rival, stateful_set
from proxy import Proxy, Request
from system import Object, Phalanx, all_bound, pod, priority_class, unschedulable
from two_racks import apply_two_racks

from controller.acting.probe import PROBE
from controlplane.recording import bound
from kube.keys import SYSTEM_NAMESPACE
from kube.placeholders import PLACEHOLDER, is_seat

pytestmark = pytest.mark.controlplane


@pytest.fixture
def racks(phalanx: Phalanx) -> Phalanx:
    """Five nodes in two racks, and a topology over them."""
    return apply_two_racks(phalanx, 5)


QUOTA = "/api/v1/namespaces/default/resourcequotas/few"
SHORT = "waits for ResourceQuota few to have room for 2 more pods (pods: 2 needed, 1 of 2 left)"


def apply_quota(phalanx: Phalanx, pods: int) -> None:
    """Make a quota, or change it."""
    meta = {"name": "few", "namespace": "default"}
    phalanx.submit(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": {"pods": str(pods)}}}
    )


def await_known(phalanx: Phalanx) -> None:
    """Wait until the controller has read the quota, by another gang that is too large for it. Its watch may be late."""
    early = stateful_set("early")
    early["spec"]["replicas"] = 4
    phalanx.submit(early)
    told = "waits for ResourceQuota few to have room for 3 more pods"
    phalanx.wait(
        lambda: phalanx.status("early").get("message", "").startswith(told), "the controller to know the quota"
    )
    phalanx.cluster.kubectl("delete", "statefulset", "early")
    phalanx.wait(
        lambda: not phalanx.cluster.request("GET", "/api/v1/namespaces/default/pods")["items"], "its pod to go"
    )
    used = {"pods": "0"}
    phalanx.wait(lambda: phalanx.cluster.request("GET", QUOTA)["status"]["used"] == used, "nothing to be charged")


@pytest.mark.long
def test_no_room_is_held_for_pods_that_a_quota_of_their_namespace_would_refuse(racks: Phalanx) -> None:
    """The first of three pods is there: of a quota of two, one is left."""
    apply_quota(racks, 2)
    await_known(racks)
    racks.submit(stateful_set("w"))
    racks.wait(lambda: racks.status("w").get("message") == SHORT, "the gang to wait for the quota")
    assert not held(racks)
    assert not racks.pod("w-0")["spec"].get("nodeName")
    apply_quota(racks, 3)
    await_held(racks)


@pytest.mark.long
def test_gangs_of_one_namespace_hold_no_more_room_together_than_its_quota_has(racks: Phalanx) -> None:
    """Three first pods exist. Of a quota of five pods two are left, which is what each of the three gangs needs."""
    apply_quota(racks, 5)
    names = ("v", "w", "x")
    for each in names:
        small = stateful_set(each)
        small["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1"
        racks.submit(small)
    why = "waits for ResourceQuota few to have room for 2 more pods (pods: 2 needed, 0 of 5 left)"
    racks.wait(lambda: [racks.status(each).get("message") for each in names].count(why) == 2, "two gangs to wait")
    racks.wait(lambda: len(held(racks)) == 2, "room to be held for one")
    assert len({name.partition("-")[0] for name in held(racks)}) == 1


@pytest.mark.long
def test_room_is_given_back_when_a_quota_comes_that_refuses_the_pods_for_which_it_is_held(racks: Phalanx) -> None:
    """The first pod runs; its gang had the guarantee all-or-none."""
    racks.submit(stateful_set("w"))
    await_held(racks)
    apply_quota(racks, 2)
    racks.wait(lambda: not placeholders(racks), "the room to be given back")
    racks.wait(lambda: racks.status("w").get("message") == SHORT, "the gang to wait for the quota")
    racks.wait(lambda: racks.nodes_of(["w-0"]) == {"w-0": ""}, "the first pod to be taken back")
    assert "w" in racks.cluster.kubectl("get", "events", "--field-selector", "reason=QuotaShort")
    apply_quota(racks, 3)
    await_held(racks)


UNWANTED = (
    "waits for 2 more pods: 1 of 3 exist; StatefulSet default/w creates pods only when others of it run, and no "
    "capacity is reserved for them, as {}: set spec.podManagementPolicy: Parallel, so that all are made at once, or {}"
)
BY_ANNOTATION = UNWANTED.format("its annotation phalanx.dev/placeholders says", "remove the annotation")
BY_SETTING = UNWANTED.format("the controller's --no-placeholders says", "have the controller run without it")


def await_unwanted(phalanx: Phalanx, told: str) -> None:
    """Wait until the gang reports that no capacity is reserved and what to do. None of its pods is released."""
    phalanx.wait(lambda: phalanx.status("w").get("message") == told, "the gang to say what to do")
    assert phalanx.status("w")["reason"] == "MembersMissing"
    assert phalanx.pod("w-0")["spec"]["schedulingGates"]
    assert not placeholders(phalanx)


@pytest.mark.long
def test_where_a_workload_wants_no_placeholders_its_gang_waits_and_is_told_what_to_do(racks: Phalanx) -> None:
    """`kubectl apply` already warns. Without the annotation the gang continues."""
    unwanted = stateful_set("w")
    unwanted["metadata"]["annotations"]["phalanx.dev/placeholders"] = "off"
    wrong = 'metadata.annotations[phalanx.dev/placeholders]: "off" is neither "true" nor "false"'
    racks.await_refusal(wrong, unwanted)
    unwanted["metadata"]["annotations"]["phalanx.dev/placeholders"] = "false"
    with racks.record() as recorder:
        racks.apply_once_told(f"gang default/w: {BY_ANNOTATION}", unwanted)
        await_unwanted(racks, BY_ANNOTATION)
        events = recorder.events
    assert not any(bound(event) for event in events if event.name in NAMES)
    racks.cluster.kubectl("annotate", "statefulset", "w", "phalanx.dev/placeholders-")
    await_held(racks)


@pytest.mark.long
def test_where_the_controller_is_to_hold_no_room_all_gangs_wait_and_what_was_held_is_given_back(
    racks: Phalanx,
) -> None:
    racks.submit(stateful_set("w"))
    await_held(racks)
    racks.cluster.program("controller").kill()
    doomed = racks.deployment.start_controller(options=("--no-placeholders",))
    racks.wait(lambda: not placeholders(racks), "the room to be given back")
    racks.wait(lambda: racks.nodes_of(["w-0"]) == {"w-0": ""}, "the first pod to be taken back")
    assert "w" in racks.cluster.kubectl("get", "events", "--field-selector", "reason=RoomUnwanted")
    racks.wait(lambda: BY_SETTING in racks.status("w").get("message", ""), "the gang to say what to do")
    assert not placeholders(racks)
    doomed.kill()
    racks.deployment.start_controller()
    await_held(racks)


def test_the_room_of_pods_that_do_not_exist_yet_is_held_until_they_come(racks: Phalanx) -> None:
    racks.apply_once_told("gang default/w: 3 pods fit in r1: n0..2", stateful_set("w"))
    planned = await_held(racks)
    status = racks.status("w")
    assert "capacity is reserved for w-1..2 until StatefulSet default/w creates them" in status["message"]
    numbers = {key: status["members"][key] for key in ("expected", "existing", "bound")}
    assert numbers == {"expected": 3, "existing": 1, "bound": 1}
    assert all(each["spec"]["nodeSelector"] == {PROBE: "never"} for each in placeholders(racks).values())
    rivals = [f"rival-{number_of(planned[name])}" for name in NAMES[1:]]
    with racks.record() as recorder:
        racks.submit(*(rival(number_of(planned[name])) for name in NAMES[1:]))
        racks.wait(lambda: all(unschedulable(racks.pod(each)) for each in rivals), "the rivals to be turned away")
        for name, after in pairwise(NAMES):
            make_ready(racks, name)
            racks.await_bound([after])
        events = recorder.wait_for(all_bound(NAMES[1:]))
    assert {e.name: bound(e) for e in events if e.name in NAMES[1:] and bound(e)} == dict(list(planned.items())[1:])
    assert not any(bound(event) for event in events if event.name in rivals)
    racks.wait(lambda: not placeholders(racks), "no placeholder to be left")
    racks.await_phase("w", "Placed")


@pytest.mark.long
def test_a_pod_of_higher_priority_takes_the_room_and_it_is_held_elsewhere(racks: Phalanx) -> None:
    racks.submit(priority_class("high", 1000), stateful_set("w"))
    planned = await_held(racks)
    taken = planned["w-1"]
    racks.submit(rival(number_of(taken), priorityClassName="high"))
    racks.await_bound([f"rival-{number_of(taken)}"])
    (spare,) = {"n0", "n1", "n2", "n3"} - set(planned.values())
    racks.wait(lambda: set(held(racks).values()) == {spare, planned["w-2"]}, "room to be held elsewhere")
    assert "w" in racks.cluster.kubectl("get", "events", "--field-selector", "reason=RoomLost")
    make_ready(racks, "w-0")
    racks.await_bound(["w-1"])
    make_ready(racks, "w-1")
    assert set(racks.await_bound(NAMES).values()) == {"n0", "n1", "n2", "n3"} - {taken}


@pytest.mark.long
def test_a_gang_whose_room_is_taken_for_good_is_taken_back_as_a_whole(racks: Phalanx) -> None:
    racks.submit(priority_class("high", 1000), rival(3), stateful_set("w"))
    planned = await_held(racks)
    before = racks.pod("w-0")["metadata"]["uid"]
    racks.submit(rival(number_of(planned["w-1"]), priorityClassName="high"))
    racks.wait(lambda: not placeholders(racks), "the room to be given back")
    racks.wait(lambda: racks.pod("w-0")["metadata"].get("uid", before) != before, "the first pod to be recreated")
    racks.await_phase("w", "Unplaceable")
    assert racks.nodes_of(["w-0"]) == {"w-0": ""}
    racks.cluster.kubectl("delete", "pod", "rival-3", "--force", "--grace-period=0")
    await_held(racks)


@pytest.mark.long
def test_the_room_goes_with_the_workload_and_is_charged_to_no_quota(racks: Phalanx) -> None:
    """A quota of three is enough for three pods: their placeholders are not charged beside them."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "three", "namespace": "default"},
        "spec": {"hard": {"pods": "3"}},
    }
    racks.submit(quota)
    path = "/api/v1/namespaces/default/resourcequotas/three"
    racks.wait(lambda: bool(racks.cluster.request("GET", path).get("status", {}).get("hard")), "the quota")
    racks.submit(stateful_set("w"))
    await_held(racks)
    make_ready(racks, "w-0")
    racks.await_bound(["w-1"])
    racks.wait(lambda: list(held(racks)) == ["w-2"], "room for the last one alone")
    assert "w-2" in racks.cluster.kubectl("get", "gang", "w", "-o", "jsonpath={.status.message}")
    racks.cluster.kubectl("scale", "--replicas=2", "statefulset/w")
    racks.wait(lambda: not placeholders(racks), "its room to be given back")
    racks.await_phase("w", "Placed")
    racks.cluster.kubectl("scale", "--replicas=3", "statefulset/w")
    racks.wait(lambda: list(held(racks)) == ["w-2"], "room for it again")
    racks.cluster.kubectl("delete", "statefulset", "w")
    racks.wait(lambda: not placeholders(racks) and not racks.gang("w"), "all to go with the workload")


QUEUED = {"kueue.x-k8s.io/queue-name": "q"}


def kueues(kind: str, name: str, spec: Object, **metadata: str) -> Object:
    """An object of Kueue's."""
    made = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": kind, "metadata": {"name": name, **metadata}}
    return {**made, "spec": spec}


def apply_queue(phalanx: Phalanx, cpu: int) -> None:
    """Create LocalQueue q with a quota of so many cpu on any node of the racks, and the racks' Topology of Kueue."""
    phalanx.cluster.kubectl("label", "nodes", "--all", "pool=any")
    levels = [{"nodeLabel": "example.com/rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
    quotas = [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": "1Ti"}]
    groups = [{"coveredResources": ["cpu", "memory"], "flavors": [{"name": "any", "resources": quotas}]}]
    flavor = {"nodeLabels": {"pool": "any"}, "topologyName": "racks"}
    phalanx.submit(
        kueues("Topology", "racks", {"levels": levels}),
        kueues("ResourceFlavor", "any", flavor),
        kueues("ClusterQueue", "pool", {"namespaceSelector": {}, "resourceGroups": groups}),
        kueues("LocalQueue", "q", {"clusterQueue": "pool"}, namespace="default"),
    )


def of_the_queue(name: str) -> Object:
    """A pod of 1 cpu that is a gang of its own in the queue."""
    made = pod(name, cpu=1)
    made["metadata"] |= {"labels": QUEUED}
    return made


@pytest.mark.long
def test_room_that_is_held_is_charged_to_a_queue_of_kueues_once(racks: Phalanx) -> None:
    """Three pods of 6 cpu, of which one exists, and a quota of 19: 1 is left, at every moment of the way."""
    apply_queue(racks, 19)
    queued = stateful_set("w")
    queued["metadata"] |= {"labels": QUEUED, "annotations": {}}
    wish = {"kueue.x-k8s.io/podset-required-topology": "example.com/rack"}
    queued["spec"]["template"]["metadata"]["annotations"] |= wish
    racks.apply_once_told("gang default/w: 3 pods fit in r1: n0..2", queued)
    planned = await_held(racks)
    racks.submit(of_the_queue("fits"))
    racks.await_bound(["fits"])
    full = "waits for quota: the gang needs 1 cpu, and flavor any of ClusterQueue pool has 0 of 19 left"
    with racks.record() as recorder:
        racks.submit(of_the_queue("waits"))
        racks.wait(
            lambda: racks.status("waits").get("message", "").startswith(full), "the other one to wait for the quota"
        )
        for name, after in pairwise(NAMES):
            make_ready(racks, name)
            racks.await_bound([after])
        racks.await_phase("w", "Placed")
        events = recorder.events
    assert {e.name: bound(e) for e in events if e.name in NAMES[1:] and bound(e)} == dict(list(planned.items())[1:])
    assert not any(bound(event) for event in events if event.name == "waits")
    assert racks.status("waits")["message"].startswith(full)
    racks.wait(lambda: not placeholders(racks), "no placeholder to be left")
    racks.cluster.kubectl("scale", "--replicas=2", "statefulset/w")
    racks.await_bound(["waits"])


def makes_placeholder(request: Request) -> bool:
    """The first placeholder."""
    return request.verb == "POST" and PLACEHOLDER in request.body["metadata"].get("labels", {})


def nominates_placeholder(request: Request) -> bool:
    """Its nomination."""
    return "/pods/placeholder-" in request.path and request.path.split("?")[0].endswith("/status")


def records_heir(request: Request) -> bool:
    """The pod that has come, in the record of the plan."""
    body = request.body if request.verb == "PATCH" and "/gangs/w/status" in request.path else {}
    assigned = body.get("status", {}).get("assignments") or ()
    return any(each["pod"] == "w-1" and not is_seat(each.get("uid", "/")) for each in assigned)


def nominates_heir(request: Request) -> bool:
    """Its nomination."""
    return "/pods/w-1/status" in request.path and bool(request.body["status"].get("nominatedNodeName"))


def frees(request: Request) -> bool:
    """The end of its placeholder."""
    return request.verb == "DELETE" and "/pods/placeholder-" in request.path


def probes(request: Request) -> bool:
    """The probe after that."""
    return request.verb == "POST" and PROBE in request.body["metadata"].get("labels", {})


def releases_heir(request: Request) -> bool:
    """The patch that takes its gate away."""
    return request.verb == "PATCH" and request.path.split("?")[0].endswith("/pods/w-1")


WRITES = (makes_placeholder, nominates_placeholder, records_heir, nominates_heir, frees, probes, releases_heir)


@pytest.mark.long
@pytest.mark.parametrize("write", WRITES, ids=lambda each: each.__name__)
def test_a_controller_killed_after_a_write_loses_no_room_and_leaves_no_placeholder(
    racks: Phalanx, tmp_path: Path, write: Callable[[Request], bool]
) -> None:
    racks.cluster.program("controller").kill()
    with Proxy(racks.cluster.kubeconfig_for(SYSTEM_NAMESPACE, "phalanx-controller"), tmp_path) as proxy:
        doomed = racks.deployment.start_controller(proxy.kubeconfig())

        def kill(request: Request) -> None:
            if write(request):
                doomed.kill()

        if write in WRITES[:2]:
            proxy.after = kill
        racks.submit(stateful_set("w"))
        if write in WRITES[:2]:
            racks.wait(lambda: not doomed.running, f"the controller to reach {write.__name__}")
            racks.deployment.start_controller()
        planned = await_held(racks)
        rivals = {f"rival-{number_of(planned[name])}": number_of(planned[name]) for name in NAMES[1:]}
        with racks.record() as recorder:
            racks.submit(*(rival(each) for each in rivals.values()))
            racks.wait(lambda: all(unschedulable(racks.pod(each)) for each in rivals), "the rivals to be turned away")
            if write in WRITES[2:]:  # before the first release there was a probe, too
                proxy.after = kill
            make_ready(racks, "w-0")
            if write in WRITES[2:]:
                racks.wait(lambda: not doomed.running, f"the controller to reach {write.__name__}")
                racks.deployment.start_controller()
            racks.await_bound(["w-1"])
            make_ready(racks, "w-1")
            events = recorder.wait_for(all_bound(["w-2"]))
    assert {e.name: bound(e) for e in events if e.name in NAMES[1:] and bound(e)} == dict(list(planned.items())[1:])
    assert not any(bound(event) for event in events if event.name in rivals)
    racks.wait(lambda: not placeholders(racks), "no placeholder to be left")
