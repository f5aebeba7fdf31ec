"""The cache on a real API server: its content, and that it survives faults of the API server."""

import base64
import json
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_for
from watched_kind import WatchedKind

from cluster.api.connecting import connect
from cluster.caches.cache import ClusterCache
from cluster.caches.discovery import LOOK_SECONDS
from cluster.caches.reflector_timing import ReflectorTiming
from controlplane.control_plane import ControlPlane
from kube.objects import Pod

pytestmark = pytest.mark.controlplane

SOON = ReflectorTiming(missing=1.0, first_retry=0.2, last_retry=5.0)
WIDGETS = WatchedKind("test.phalanx.dev", ("v1", "v1alpha1"), "Widget", "widgets")
WIDGET = {
    "apiVersion": "test.phalanx.dev/v1alpha1",
    "kind": "Widget",
    "metadata": {"name": "w", "namespace": "default"},
}
JOBS = WatchedKind("batch", ("v1",), "Job", "jobs")
CONFIG = WatchedKind("", ("v1",), "ConfigMap", "configmaps", ("default", "config"))
OTHER = WatchedKind("", ("v1",), "ConfigMap", "configmaps", ("default", "other"))
GATE = "phalanx.dev/gang"


@contextmanager
def caching(
    plane: ControlPlane, *kinds: WatchedKind, timing: ReflectorTiming = SOON, **options: Any
) -> Iterator[ClusterCache]:
    cache = ClusterCache(connect(str(plane.kubeconfig)), kinds, timing=timing, **options)
    cache.start()
    try:
        assert cache.wait_synced(120), cache.unsynced()
        yield cache
    finally:
        cache.stop()
    assert not [each for each in threading.enumerate() if each.name.startswith(("reflector", "discovery"))]


def node(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    }


def pod(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": containers, **spec},
    }


def names(cache: ClusterCache) -> list[str]:
    return [state.name for state in cache.snapshot().nodes]


def tenants(cache: ClusterCache) -> dict[str, bool]:
    found = [tenant for state in cache.snapshot().nodes for tenant in state.tenants]
    return {tenant.pod.metadata.name: tenant.reserved for tenant in found}


def test_it_shows_nodes_and_pods_as_they_come_and_go(cluster: ControlPlane) -> None:
    with caching(cluster) as cache:
        assert names(cache) == []
        cluster.request("POST", "/api/v1/nodes", node("n1"))
        wait_for(lambda: names(cache) == ["n1"])
        cluster.await_nodes(["n1"])
        cluster.request("POST", "/api/v1/namespaces/default/pods", pod("bound"))
        cluster.request("POST", "/api/v1/namespaces/default/pods", pod("gated", schedulingGates=[{"name": GATE}]))
        wait_for(lambda: tenants(cache) == {"bound": False})
        nominated = {"status": {"nominatedNodeName": "n1"}}
        cluster.kubectl("patch", "pod", "gated", "--subresource=status", "--type=merge", "-p", json.dumps(nominated))
        wait_for(lambda: tenants(cache) == {"bound": False, "gated": True})
        assert cache.snapshot().nodes[0].tenants[0].requests == {"cpu": 1000, "pods": 1}
        assert cache.snapshot().namespaces["default"]["kubernetes.io/metadata.name"] == "default"
        assert "system-node-critical" in cache.snapshot().priority_classes
        cluster.kubectl("delete", "pod", "bound", "--wait=false")
        wait_for(lambda: tenants(cache) == {"gated": True})


def test_pods_are_sorted_into_groups_as_they_come_change_and_go(cluster: ControlPlane) -> None:
    def teams(of: Pod) -> tuple[list[str], str]:
        labels = of.metadata.labels
        return [each for each in (labels.get("team"), labels.get("second")) if each], labels.get("kind", "")

    with caching(cluster, groups_of=teams) as cache:

        def named(group: str) -> list[str]:
            return [each.metadata.name for each in cache.pods_of(group)]

        for name, group in (("a2", "red"), ("a1", "red"), ("b", "blue"), ("c", "")):
            made = pod(name, schedulingGates=[{"name": GATE}])
            made["metadata"]["labels"] = {"team": group} if group else {}
            cluster.request("POST", "/api/v1/namespaces/default/pods", made)
        wait_for(lambda: len(cache.pods()) == 4)
        assert (named("red"), named("blue"), named("green")) == (["a1", "a2"], ["b"], [])
        cluster.kubectl("label", "pod", "a1", "team=blue", "--overwrite")
        cluster.kubectl("label", "pod", "b", "team-")
        wait_for(lambda: (named("red"), named("blue")) == (["a2"], ["a1"]))
        cluster.kubectl("label", "pod", "a1", "second=green")
        wait_for(lambda: (named("green"), named("blue")) == (["a1"], ["a1"]))
        assert cache.alike("blue", "default/a1") == 1
        cluster.kubectl("label", "pod", "c", "team=blue", "--overwrite")
        wait_for(lambda: named("blue") == ["a1", "c"])
        assert (cache.alike("blue", "default/a1"), [each.metadata.name for each in cache.each_kind_of("blue")]) == (
            2,
            ["a1"],
        )
        cluster.kubectl("label", "pod", "c", "kind=other")
        wait_for(lambda: [each.metadata.name for each in cache.each_kind_of("blue")] == ["a1", "c"])
        cluster.kubectl("delete", "pod", "a2", "--force", "--grace-period=0")
        wait_for(lambda: named("red") == [])


def test_finished_pods_stay_known(cluster: ControlPlane) -> None:
    with caching(cluster) as cache:
        cluster.request("POST", "/api/v1/namespaces/default/pods", pod("ends", schedulingGates=[{"name": GATE}]))
        wait_for(lambda: [each.metadata.name for each in cache.pods()] == ["ends"])
        cluster.kubectl(
            "patch", "pod", "ends", "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Failed"}}'
        )
        wait_for(lambda: [each.finished for each in cache.pods()] == [True])


def test_a_snapshot_stays_the_same_object_until_something_in_it_changes(cluster: ControlPlane) -> None:
    with caching(cluster, JOBS) as cache:
        cluster.kubectl("create", "namespace", "quiet")
        wait_for(lambda: "quiet" in cache.namespaces())
        time.sleep(1.0)  # until the objects that follow the creation of a namespace exist
        before, labelled, version = cache.snapshot(), cache.namespaces(), cache.version()
        job = {"spec": {"suspend": True, "template": {"spec": {"restartPolicy": "Never", **pod("j")["spec"]}}}}
        whole = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "quiet"}, **job}
        cluster.request("POST", "/apis/batch/v1/namespaces/quiet/jobs", whole)
        assert cache.wait_for_change(version, 60) > version
        assert cache.snapshot() is before
        assert cache.namespaces() is labelled
        manifest = cache.objects()["batch", "Job", "quiet", "j"]
        assert (manifest["apiVersion"], manifest["kind"]) == ("batch/v1", "Job")
        assert "managedFields" not in manifest["metadata"]
        cluster.request("POST", "/api/v1/nodes", node("n1"))
        wait_for(lambda: cache.snapshot() is not before)


def test_those_who_wait_are_told_of_each_change(cluster: ControlPlane) -> None:
    with caching(cluster) as cache:
        calls: list[int] = []
        cache.on_change(lambda: calls.append(cache.version()))
        version = cache.version()
        assert cache.wait_for_change(version - 1, 0) == version
        cluster.request("POST", "/api/v1/nodes", node("n1"))
        later = cache.wait_for_change(version, 60)
        assert later > version
        wait_for(lambda: later in calls)


def test_items_of_a_list_know_their_kind_as_those_of_a_watch_do(cluster: ControlPlane) -> None:
    job = {"spec": {"suspend": True, "template": {"spec": {"restartPolicy": "Never", **pod("j")["spec"]}}}}
    whole = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "early", "namespace": "default"}, **job}
    cluster.request("POST", "/apis/batch/v1/namespaces/default/jobs", whole)
    with caching(cluster, JOBS) as cache:
        manifest = cache.objects()["batch", "Job", "default", "early"]
        assert (manifest["apiVersion"], manifest["kind"]) == ("batch/v1", "Job")


def test_of_a_kind_only_the_named_objects_are_watched(cluster: ControlPlane) -> None:
    def config(name: str) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}

    cluster.create("/api/v1/namespaces/default/configmaps", [config("other"), config("nobodys")])
    with caching(cluster, CONFIG, OTHER) as cache:
        assert sorted(key[3] for key in cache.objects()) == ["other"]
        cluster.apply([config("config")])
        wait_for(lambda: sorted(key[3] for key in cache.objects()) == ["config", "other"])
        cluster.kubectl("delete", "configmap", "config", "other", "nobodys")
        wait_for(lambda: not cache.objects())


def test_a_kind_that_is_installed_later_is_found_and_one_taken_away_is_forgotten(cluster: ControlPlane) -> None:
    with caching(cluster, WIDGETS) as cache:
        assert dict(cache.objects()) == {}
        install_widgets(cluster)
        try:
            create_widget(cluster)
            wait_for(lambda: list(cache.objects()) == [("test.phalanx.dev", "Widget", "default", "w")], seconds=5)
        finally:
            cluster.kubectl("delete", "crd", "widgets.test.phalanx.dev")
        wait_for(lambda: not cache.objects(), seconds=5)


def test_a_kind_that_is_installed_is_looked_for_though_it_was_missing_for_long(cluster: ControlPlane) -> None:
    """It was found by asking for it alone, half a minute later."""
    with caching(cluster, WIDGETS, timing=replace(SOON, missing=3600.0, last_missing=3600.0)) as cache:
        for _ in range(2):  # and again, where it has gone meanwhile
            install_widgets(cluster)
            try:
                create_widget(cluster)
                wait_for(lambda: list(cache.objects()) == [("test.phalanx.dev", "Widget", "default", "w")])
            finally:
                cluster.kubectl("delete", "crd", "widgets.test.phalanx.dev")
            wait_for(lambda: not cache.objects())
            wait_for(lambda: "test.phalanx.dev" not in str(cluster.request("GET", "/apis")))
            # A kind that goes and comes between two discovery reads is found only by a request for that kind.
            time.sleep(2 * LOOK_SECONDS)


def create_widget(plane: ControlPlane) -> None:
    """Create the widget as soon as the API server accepts it.

    The API server recreates the store of a kind after it has accepted the definition.
    """
    path = "/apis/test.phalanx.dev/v1alpha1/namespaces/default/widgets"
    wait_for(lambda: plane.request("POST", path, WIDGET).get("kind") == "Widget")


def install_widgets(plane: ControlPlane) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    served = {"name": "v1alpha1", "served": True, "storage": True, "schema": schema}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.test.phalanx.dev"},
        "spec": {
            "group": "test.phalanx.dev",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [served],
        },
    }
    plane.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    plane.kubectl("wait", "--for=condition=Established", "crd/widgets.test.phalanx.dev", "--timeout=120s")


@pytest.fixture(scope="module")
def fragile() -> Iterator[ControlPlane]:
    """A control plane of this module's own, to be broken."""
    with ControlPlane() as running:
        yield running


def restart(plane: ControlPlane, meanwhile: Callable[[], None] = lambda: None) -> None:
    plane.program("kube-apiserver").kill()
    meanwhile()
    plane.program("kube-apiserver").start()
    wait_for(lambda: answers(plane))


def answers(plane: ControlPlane) -> bool:
    try:
        return bool(plane.request("GET", "/readyz") == "ok")
    except OSError:
        return False


def test_it_goes_on_when_the_api_server_comes_back(fragile: ControlPlane) -> None:
    down = list[float]()

    def away() -> None:
        wait_for(lambda: cache.age() > 0.5)
        down.append(time.monotonic())

    with caching(fragile) as cache:
        fragile.request("POST", "/api/v1/nodes", node("before"))
        wait_for(lambda: "before" in names(cache))
        restart(fragile, away)
        assert "before" in names(cache)
        fragile.request("POST", "/api/v1/nodes", node("after"))
        wait_for(lambda: {"before", "after"} <= set(names(cache)))
        wait_for(lambda: cache.age() < time.monotonic() - down[0], "every watch to be heard of again")


def test_it_lists_again_when_history_was_thrown_away(fragile: ControlPlane) -> None:
    with caching(fragile) as cache:
        for name in ("kept", "removed"):
            fragile.request("POST", "/api/v1/nodes", node(name))
        wait_for(lambda: {"kept", "removed"} <= set(names(cache)))
        relists = cache.relists()
        restart(fragile, lambda: forget(fragile, "/registry/minions/removed"))
        wait_for(lambda: "removed" not in names(cache))
        assert "kept" in names(cache)
        assert cache.relists() > relists


@pytest.mark.long
def test_it_goes_on_when_etcd_comes_back(fragile: ControlPlane) -> None:
    with caching(fragile) as cache:
        fragile.program("etcd").kill()
        time.sleep(1)
        fragile.program("etcd").start()
        wait_for(lambda: fragile.request("POST", "/api/v1/nodes", node("later")).get("kind") == "Node")
        wait_for(lambda: "later" in names(cache))


def forget(plane: ControlPlane, key: str) -> None:
    """Delete a key in etcd without the API server's knowledge, and compact the history (etcd's JSON gateway)."""
    arguments = Path(f"/proc/{plane.program('etcd').pid}/cmdline").read_text().split("\0")
    url = next(each for each in arguments if each.startswith("--listen-client-urls=")).partition("=")[2]
    coded = base64_of(key)
    revision = etcd(url, "kv/deleterange", {"key": coded})["header"]["revision"]
    etcd(url, "kv/compaction", {"revision": revision, "physical": True})


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def etcd(url: str, path: str, body: dict[str, Any]) -> Any:
    with urllib.request.urlopen(f"{url}/v3/{path}", json.dumps(body).encode(), timeout=10) as answer:  # noqa: S310 - our own etcd
        return json.load(answer)
