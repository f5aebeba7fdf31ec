"""The estimated start of a gang that waits for quota, as `phalanx why` shows it, on the local API server.

ClusterQueue research: 8 cpu      Gang `first` runs with 8 cpu, expected for an hour; Gang `second` waits for 4
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kubernetes.client.exceptions import ForbiddenException
from local_api.resources import FOR_COMMANDS
from local_api.server import LocalApi, local_api
from node_manifests import node_manifest
from test_queue_command import KUEUE

from cli.start_estimates import Estimates
from cluster.api.connecting import connect
from cluster.api.transport import Transport
from kube.keys import GATE
from planning.stories.facts import StartEstimate
from planning.stories.timeline import moment

GANGS = "/apis/phalanx.dev/v1alpha1/namespaces/default/gangs"


@pytest.fixture
def api() -> Iterator[LocalApi]:
    """A cluster with a queue of 8 cpu."""
    with local_api(*FOR_COMMANDS) as api:
        api.create("/api/v1/namespaces", {"metadata": {"name": "default"}})
        api.create("/api/v1/nodes", *(node_manifest(f"n{at}", cpu=8) for at in range(2)))
        flavors = [{"name": "any", "resources": [{"name": "cpu", "nominalQuota": "8"}]}]
        groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
        queue = {"metadata": {"name": "research"}, "spec": {"namespaceSelector": {}, "resourceGroups": groups}}
        api.create(f"{KUEUE}/resourceflavors", {"metadata": {"name": "any"}, "spec": {}})
        api.create(f"{KUEUE}/clusterqueues", queue)
        local = {"metadata": {"name": "training", "namespace": "default"}, "spec": {"clusterQueue": "research"}}
        api.create(f"{KUEUE}/namespaces/default/localqueues", local)
        yield api


def gang(api: LocalApi, name: str, pods: int, status: dict[str, Any], **annotations: str) -> None:
    """Create a Gang in the queue with this status, and its pods of 4 cpu."""
    meta = {"name": name, "namespace": "default", "annotations": annotations}
    made = api.ask("POST", GANGS, {"metadata": meta, "spec": {"minMember": pods, "queue": "training"}})
    api.ask("PUT", f"{GANGS}/{name}/status", {**made, "status": status})
    labels = {"kueue.x-k8s.io/queue-name": "training", "phalanx.dev/gang": name}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "4"}}}
    for at in range(pods):
        where = {"nodeName": f"n{at}"} if status["phase"] == "Placed" else {"schedulingGates": [{"name": GATE}]}
        metadata = {"name": f"{name}-{at}", "namespace": "default", "labels": labels}
        body = {"metadata": metadata, "spec": {"containers": [container], **where}}
        api.ask("POST", "/api/v1/namespaces/default/pods", body)


def estimate(api: LocalApi, folder: Path) -> StartEstimate | None:
    """Return the estimated start of the gang `second`."""
    kubeconfig = api.kubeconfig(folder)
    shown = api.ask("GET", f"{GANGS}/second")
    return Estimates(kubeconfig).start(connect(kubeconfig), shown)


def running() -> dict[str, Any]:
    """The status of a gang that was placed just now."""
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"phase": "Placed", "conditions": [{"type": "Placed", "status": "True", "lastTransitionTime": at}]}


WAITS = {"phase": "Waiting", "reason": "QuotaExhausted", "message": "queue research lacks 4 cpu"}


def test_a_gang_that_waits_for_quota_has_an_estimated_start(api: LocalApi, tmp_path: Path) -> None:
    status = running()
    gang(api, "first", 2, status, **{"phalanx.dev/expected-duration": "1h"})
    gang(api, "second", 1, WAITS)
    start = estimate(api, tmp_path)
    assert start is not None
    assert start.at == moment(status["conditions"][0]["lastTransitionTime"]) + timedelta(hours=1)
    assert start.after == "default/first"


def test_without_a_known_end_the_start_is_unknown(api: LocalApi, tmp_path: Path) -> None:
    gang(api, "first", 2, running())
    gang(api, "second", 1, WAITS)
    assert estimate(api, tmp_path) == StartEstimate(None, "too few gangs with a known end use the quota, or it is free")


def test_a_gang_that_waits_for_pods_has_none(api: LocalApi, tmp_path: Path) -> None:
    gang(api, "second", 1, {"phase": "Waiting", "reason": "MembersMissing"})
    assert estimate(api, tmp_path) is None


def test_a_user_of_one_namespace_is_told_which_right_is_missing() -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise ForbiddenException(status=403)

    shown = {"metadata": {"name": "second", "namespace": "default"}, "spec": {"queue": "training"}, "status": WAITS}
    start = Estimates(None).start(cast("Transport", SimpleNamespace(request=refused)), shown)
    assert start is not None
    assert (start.at, start.unknown) == (None, "it needs the right to list nodes and pods of all namespaces")
