"""The local API server answers as a real one, request by request, so that tests on it are true of Kubernetes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from local_api.direct import DirectTransport
from local_api.server import local_api
from two_servers import BUDGETS, GANGS, PODS, TwoServers, uid, version

from cluster.api.connecting import connect
from controlplane.control_plane import ControlPlane, Options

pytestmark = pytest.mark.controlplane

CRDS = Path(__file__).parents[2] / "manifests" / "crds"
GATE = "phalanx.dev/gang"
OPTIONS = {"kind": "DeleteOptions", "apiVersion": "v1"}
NOW = {**OPTIONS, "gracePeriodSeconds": 0}
PRECISE = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}
PIN = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": PRECISE}}


@pytest.fixture(scope="module")
def real() -> Iterator[ControlPlane]:
    """A real API server in which only these tests write objects."""
    with ControlPlane(Options(components=())) as plane:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        plane.request("POST", "/api/v1/namespaces/default/serviceaccounts", account)
        for ours in ("phalanx", "koordinator"):
            plane.kubectl("apply", "-k", str(CRDS / ours))
        plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
        yield plane


@pytest.fixture
def both(real: ControlPlane) -> Iterator[TwoServers]:
    """The real one, emptied, and the local one."""
    for path in (PODS, GANGS, BUDGETS):
        real.request("DELETE", path, NOW)
    with local_api() as local:
        yield TwoServers(connect(str(real.kubeconfig)), DirectTransport(local))


def pod(name: str = "a", **spec: Any) -> dict[str, Any]:
    """A pod that no scheduler tries."""
    container = {"name": "main", "image": "none"}
    whole = {"containers": [container], "automountServiceAccountToken": False, "schedulerName": "nobody", **spec}
    return {"metadata": {"name": name, "namespace": "default", "labels": {"app": "x"}}, "spec": whole}


def gated(name: str = "a", **spec: Any) -> dict[str, Any]:
    """Return a pod with the gate of Phalanx and another one."""
    return pod(name, schedulingGates=[{"name": GATE}, {"name": "other"}], **spec)


def gang(name: str = "g") -> dict[str, Any]:
    """A Gang object."""
    spec = {"minMember": 2}
    return {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": {"name": name}, "spec": spec}


def test_what_is_not_there(both: TwoServers) -> None:
    for path in (f"{PODS}/none", f"{GANGS}/none", f"{PODS}/none/status"):
        assert both.look(path)[0] == 404
        assert both.merge(path, {"metadata": {"labels": {"a": "b"}}})[0] == 404
    assert both.ask("DELETE", f"{PODS}/none")[0] == 404
    assert both.ask("DELETE", f"{GANGS}/none")[0] == 404
    assert both.post(f"{PODS}/none/eviction", eviction("none"))[0] == 404


def test_making_and_reading(both: TwoServers) -> None:
    assert both.post(PODS, pod())[0] == 0
    assert both.post(PODS, pod())[0] == 409
    assert both.post(PODS, gated("b"))[0] == 0
    assert both.post(GANGS, {**gang(), "status": {"phase": "Placed"}})[0] == 0
    assert both.post(GANGS, gang())[0] == 409
    for path in (f"{PODS}/a", f"{PODS}/b", f"{GANGS}/g", PODS, GANGS):
        assert both.look(path)[0] == 0
    assert len(both.ask("GET", PODS, fieldSelector="metadata.name=b")[1]["items"]) == 1
    named = {**pod(), "metadata": {"generateName": "probe-"}}
    assert both.post(PODS, named)[1]["metadata"]["name"].startswith("probe-")
    assert both.post(PODS, pod("c", priorityClassName="none"))[0] == 403


def test_what_has_changed_meanwhile_is_a_conflict(both: TwoServers) -> None:
    both.post(PODS, pod())
    both.post(GANGS, gang())
    for path, seen in ((f"{PODS}/a", "pods/a"), (f"{GANGS}/g", "gangs/g")):
        stale = {"resourceVersion": version(seen)}
        assert both.merge(path, {"metadata": {**stale, "labels": {"n": "1"}}})[0] == 0
        assert both.merge(path, {"metadata": {"labels": {"n": "2"}}})[0] == 0
        assert both.merge(path, {"metadata": {"resourceVersion": "1", "labels": {"n": "3"}}})[0] == 409
        assert both.merge(path, {"metadata": {"uid": "another", "labels": {"n": "3"}}})[0] == 422
        assert both.merge(path, {"metadata": {"uid": uid(seen), "labels": {"n": "3"}}})[0] == 0


def test_what_says_nothing_new_makes_no_version(both: TwoServers) -> None:
    _, made = both.post(GANGS, gang())
    _, same = both.merge(f"{GANGS}/g", {"spec": {"minMember": 2}})
    assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    _, other = both.merge(f"{GANGS}/g", {"spec": {"minMember": 3}})
    assert (other["metadata"]["generation"], made["metadata"]["generation"]) == (2, 1)


def test_a_status_is_written_at_its_own_path_alone(both: TwoServers) -> None:
    both.post(GANGS, gang())
    patch = {"metadata": {"labels": {"a": "b"}}, "spec": {"minMember": 5}, "status": {"phase": "Waiting"}}
    _, told = both.merge(f"{GANGS}/g/status", patch)
    assert (told["spec"], told["status"]) == ({"minMember": 2}, {"phase": "Waiting"})
    _, kept = both.merge(f"{GANGS}/g", {**patch, "status": {"phase": "Placed"}})
    assert (kept["spec"]["minMember"], kept["status"]) == (5, {"phase": "Waiting"})
    assert both.merge(f"{GANGS}/g/status", {"status": {"phase": None, "message": "so"}})[1]["status"] == {
        "message": "so"
    }


def test_a_kind_that_has_no_status_apart(both: TwoServers) -> None:
    groups = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/podgroups"
    both.ask("DELETE", f"{groups}/g")
    made = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "g"}}
    assert both.post(groups, {**made, "spec": {"minMember": 2}})[0] == 0
    assert both.merge(f"{groups}/g/status", {"status": {"phase": "Running"}})[0] == 404
    assert both.merge(f"{groups}/g", {"status": {"phase": "Running"}})[1]["metadata"]["generation"] == 2


def nomination(**status: Any) -> dict[str, Any]:
    """As the controller writes it."""
    same: dict[str, Any] = {"uid": uid("pods/a"), "resourceVersion": version("pods/a")}
    return {"metadata": {**same, "annotations": {"phalanx.dev/plan": "p"}}, "status": status}


def test_a_nomination_and_what_a_pod_says(both: TwoServers) -> None:
    both.post(PODS, gated())
    said = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "held"}
    assert both.strategic(f"{PODS}/a/status", nomination(nominatedNodeName="n1", conditions=[said]))[0] == 0
    ready = {"type": "Ready", "status": "False"}
    assert both.strategic(f"{PODS}/a/status", nomination(conditions=[ready]))[0] == 0
    stale = {"metadata": {"resourceVersion": "1"}, "status": {"nominatedNodeName": "n2"}}
    assert both.strategic(f"{PODS}/a/status", stale)[0] == 409
    cleared = {"metadata": {"annotations": {"phalanx.dev/plan": None}}, "status": {"nominatedNodeName": None}}
    _, left = both.strategic(f"{PODS}/a/status", cleared)
    assert "nominatedNodeName" not in left["status"]
    assert [each["type"] for each in left["status"]["conditions"]] == ["Ready", "PodScheduled"]


def test_a_release(both: TwoServers) -> None:
    both.post(PODS, gated())
    patch = {"spec": {"schedulingGates": [{"name": "other"}], "affinity": PIN}}
    assert both.merge(f"{PODS}/a", patch)[0] == 0
    assert both.merge(f"{PODS}/a", {"spec": {"schedulingGates": [{"name": GATE}, {"name": "other"}]}})[0] == 422
    assert both.merge(f"{PODS}/a", {"spec": {"nodeSelector": {"a": "b"}}})[0] == 0
    assert both.merge(f"{PODS}/a", {"spec": {"nodeSelector": {"a": "c"}}})[0] == 422
    assert both.merge(f"{PODS}/a", {"spec": {"schedulingGates": []}})[0] == 0
    assert both.merge(f"{PODS}/a", {"spec": {"nodeSelector": {"c": "d"}}})[0] == 422
    assert both.merge(f"{PODS}/a", {"spec": {"affinity": None}})[0] == 422
    assert both.merge(f"{PODS}/a", {"spec": {"nodeName": "n1"}})[0] == 422


def binding(name: str = "a", node: str = "n1") -> dict[str, Any]:
    """As the scheduler asks for it."""
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}


def test_a_binding(both: TwoServers) -> None:
    both.post(PODS, gated())
    assert both.post(f"{PODS}/a/binding", binding())[0] == 409
    both.strategic(f"{PODS}/a/status", nomination(nominatedNodeName="n1"))
    both.merge(f"{PODS}/a", {"spec": {"schedulingGates": []}})
    assert both.post(f"{PODS}/a/binding", binding())[0] == 0
    assert both.look(f"{PODS}/a")[1]["spec"]["nodeName"] == "n1"
    assert both.post(f"{PODS}/a/binding", binding(node="n2"))[0] == 409


def eviction(name: str = "a", *, dry_run: bool = False, **same: str) -> dict[str, Any]:
    """As the controller asks for it."""
    options = {**({"preconditions": same} if same else {}), **({"dryRun": ["All"]} if dry_run else {})}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta, "deleteOptions": options}


def running(both: TwoServers, name: str = "a") -> None:
    """A pod that is bound and runs."""
    both.post(PODS, pod(name, nodeName="n1"))
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    both.merge(f"{PODS}/{name}/status", {"status": {"phase": "Running", "conditions": [ready]}})


def test_an_eviction(both: TwoServers) -> None:
    running(both)
    assert both.post(f"{PODS}/a/eviction", eviction(resourceVersion="1"))[0] == 409
    assert both.post(f"{PODS}/a/eviction", eviction(uid="another"))[0] == 409
    same: dict[str, Any] = {"uid": uid("pods/a"), "resourceVersion": version("pods/a")}
    assert both.post(f"{PODS}/a/eviction", eviction(dry_run=True, **same), dryRun="All")[0] == 0
    assert "deletionTimestamp" not in both.look(f"{PODS}/a")[1]["metadata"]
    assert both.post(f"{PODS}/a/eviction", eviction(**same))[0] == 0
    assert "deletionTimestamp" in both.look(f"{PODS}/a")[1]["metadata"]
    assert both.ask("DELETE", f"{PODS}/a", NOW)[0] == 0
    assert both.look(f"{PODS}/a")[0] == 404
    both.post(PODS, gated("b"))
    assert both.post(f"{PODS}/b/eviction", eviction("b"))[0] == 0
    assert both.look(f"{PODS}/b")[0] == 404


def test_an_eviction_that_a_budget_forbids(both: TwoServers) -> None:
    running(both)
    running(both, "b")
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
    both.post(BUDGETS, {"apiVersion": "policy/v1", "metadata": {"name": "keep"}, "spec": spec})
    healthy = {"currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "observedGeneration": 1}
    both.merge(f"{BUDGETS}/keep/status", {"status": {**healthy, "disruptionsAllowed": 1}})
    assert both.post(f"{PODS}/a/eviction", eviction(dry_run=True), dryRun="All")[0] == 0
    assert both.post(f"{PODS}/a/eviction", eviction())[0] == 0
    assert both.look(f"{BUDGETS}/keep")[1]["status"]["disruptionsAllowed"] == 0
    for dry_run in (True, False):
        assert both.post(f"{PODS}/b/eviction", eviction("b", dry_run=dry_run))[0] == 429


def test_a_deletion_of_this_very_object(both: TwoServers) -> None:
    both.post(GANGS, gang())
    both.post(PODS, gated())
    for path, seen in ((f"{GANGS}/g", "gangs/g"), (f"{PODS}/a", "pods/a")):
        for wrong in ({"uid": "another"}, {"resourceVersion": "1"}):
            assert both.ask("DELETE", path, {**OPTIONS, "preconditions": wrong})[0] == 409
        same: dict[str, Any] = {"uid": uid(seen), "resourceVersion": version(seen)}
        assert both.ask("DELETE", path, {**OPTIONS, "preconditions": same})[0] == 0


def test_leases_and_settings(both: TwoServers) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    both.ask("DELETE", f"{leases}/l")
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
    assert both.post(leases, {**lease, "spec": {"holderIdentity": "a"}})[0] == 0
    same = {"name": "l", "namespace": "default", "resourceVersion": version("leases/l")}
    assert both.ask("PUT", f"{leases}/l", {**lease, "metadata": same, "spec": {"holderIdentity": "b"}})[0] == 0
    stale = {**same, "resourceVersion": "1"}
    assert both.ask("PUT", f"{leases}/l", {**lease, "metadata": stale, "spec": {"holderIdentity": "c"}})[0] == 409
    settings = "/api/v1/namespaces/default/configmaps"
    both.ask("DELETE", f"{settings}/c")
    both.post(settings, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}})
    assert both.merge(f"{settings}/c", {"data": {"a": None, "b": "2"}})[1]["data"] == {"b": "2"}


def test_a_watch_tells_what_has_happened(both: TwoServers) -> None:
    both.post(GANGS, gang())
    both.merge(f"{GANGS}/g/status", {"status": {"phase": "Waiting"}})
    both.merge(f"{GANGS}/g", {"spec": {"minMember": 3}})
    both.ask("DELETE", f"{GANGS}/g")
    both.post(PODS, gated("first"))
    both.post(PODS, gated())
    both.merge(f"{PODS}/a", {"spec": {"schedulingGates": []}})
    both.post(f"{PODS}/a/binding", binding())
    both.post(f"{PODS}/a/eviction", eviction())
    both.ask("DELETE", f"{PODS}/a", NOW)
    told = both.events(PODS, "pods/first", 7)
    assert [each["type"] for each in told] == ["ADDED", *["MODIFIED"] * 5, "DELETED"]
