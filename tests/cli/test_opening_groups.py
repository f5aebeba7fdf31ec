"""`phalanx uninstall` opens the gates of pods that are in a PodGroup of Phalanx."""

import pytest
from local_api.direct import DirectTransport
from local_api.server import local_api
from local_api.store import Object

from cli import uninstall
from kube.keys import GATE
from kube.scheduling_groups import pod_group_path, release_group

GROUP = release_group("phalanx", "default", "llm")
PODS = "/api/v1/namespaces/default/pods"


@pytest.mark.parametrize("exists", [False, True])
def test_a_pod_that_leaves_with_its_group_still_has_one(monkeypatch: pytest.MonkeyPatch, *, exists: bool) -> None:
    """Without a PodGroup, kube-scheduler would never try the pod. A PodGroup of the controller stays."""
    monkeypatch.setattr(uninstall, "SETTLE_SECONDS", 0.0)
    made = {"metadata": {"name": GROUP}, "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}}
    spec = {"schedulingGates": [{"name": GATE}], "schedulingGroup": {"podGroupName": GROUP}, "containers": []}
    with local_api() as api:
        api.create("/api/v1/namespaces", {"metadata": {"name": "default"}})
        api.create(PODS, {"metadata": {"name": "a", "namespace": "default"}, "spec": spec})

        def gated(_transport: object) -> list[Object]:
            """The gated pods. The local API server selects by name only, and the command selects by fields."""
            return [each for each in api.ask("GET", PODS)["items"] if each["spec"].get("schedulingGates")]

        monkeypatch.setattr(uninstall, "gated_pods", gated)
        if exists:
            api.create(pod_group_path("default"), made)
        assert uninstall.open_gates(DirectTransport(api)).unplanned == 1
        assert "schedulingGates" not in api.ask("GET", f"{PODS}/a")["spec"]
        policy = api.ask("GET", pod_group_path("default", GROUP))["spec"]["schedulingPolicy"]
    assert policy == ({"gang": {"minCount": 1}} if exists else {"basic": {}})
