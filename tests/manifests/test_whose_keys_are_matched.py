"""The installation selects the systems whose pods the API server sends to the webhook.

Workloads of a ceded system do not depend on Phalanx.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from rendered import Object, overlay

from certs.cluster_edge import CONFIGURATIONS
from controlplane.control_plane import ControlPlane, free_ports, wait_until
from controlplane.rendering import MANIFESTS
from gangs.coexistence.systems import CHOICES, COMPONENTS, SYSTEMS
from gangs.dialects.table import DIALECTS
from kube.keys import GANG, WORKLOAD

OWN = {GANG, WORKLOAD}
MEMBERS = {
    "own": {"labels": {GANG: "g"}},
    "kueue": {"labels": {"kueue.x-k8s.io/queue-name": "q"}},
    "kueue's place": {"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}},
    "koordinator": {"labels": {"pod-group.scheduling.sigs.k8s.io": "g"}},
    "kai": {"annotations": {"pod-group-name": "g"}},
    "runai": {"annotations": {"kai.scheduler/topology": "t"}},
    "ack": {"labels": {"network-topology-job-name": "g"}},
    "nobody": {"labels": {"app": "web"}},
    "kueue and own": {"labels": {"kueue.x-k8s.io/queue-name": "q", GANG: "g"}},
}
"""Metadata by which a pod names its gang."""


def test_every_dialect_that_may_be_left_has_a_component() -> None:
    by_choice = {each.name for each in SYSTEMS if each.by_default}
    sent = {each.name for each in DIALECTS} - {"phalanx"} - by_choice
    assert {name for part in COMPONENTS.values() for name in part} == sent
    assert set(COMPONENTS) | {"runai"} | by_choice == set(CHOICES)
    assert {f"{name}-groups" for name in by_choice} <= {each.name for each in MANIFESTS.iterdir()}
    assert {each.name.removeprefix("without-") for each in MANIFESTS.glob("without-*")} - {"webhook"} == set(COMPONENTS)


@pytest.mark.parametrize(("place", "subject"), [(0, "object"), (1, "oldObject")])
@pytest.mark.parametrize("part", COMPONENTS)
def test_what_is_still_asked_about_are_the_keys_of_all_others(part: str, place: int, subject: str) -> None:
    changes = yaml.safe_load((MANIFESTS / f"without-{part}" / "mutating.yaml").read_text())
    written = [each["value"] for each in changes if each["op"] == "add"]
    assert {each["name"] for each in written} == {f"is-not-left-to-{part}"}
    labels, annotations = written[place]["expression"].split("||")
    assert f"in {subject}.metadata.?labels" in labels
    assert f"in {subject}.metadata.?annotations" in annotations
    others = [each.pod_keys for each in DIALECTS if each.name not in COMPONENTS[part]]
    assert set(re.findall(r"'([^']+)'", labels)) == {key for each in others for key in each.labels} | OWN
    assert set(re.findall(r"'([^']+)'", annotations)) == {key for each in others for key in each.annotations}


@pytest.fixture
def unanswered(cluster: ControlPlane) -> Iterator[ControlPlane]:
    """A cluster for webhook configurations whose address no server answers. They are deleted afterwards."""
    yield cluster
    for kind, name in CONFIGURATIONS:
        cluster.kubectl("delete", kind, name, "--ignore-not-found")


def register(cluster: ControlPlane, objects: dict[Any, Object]) -> None:
    """Apply an overlay's webhook configurations with an address without a server; wait until they take effect."""
    (port,) = free_ports(1)
    for kind, name in CONFIGURATIONS:
        whole = json.loads(json.dumps(objects[kind, "", name]))
        for each in whole["webhooks"]:
            each["clientConfig"] = {"url": f"https://127.0.0.1:{port}{each['clientConfig']['service']['path']}"}
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(whole))
    wait_until(lambda: not comes_in(cluster, "own"), 120, "the webhooks to be registered")


def comes_in(cluster: ControlPlane, whose: str) -> bool:
    """Whether a pod that names its gang in this way is admitted."""
    spec = {"containers": [{"name": "main", "image": "pause"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "m", **MEMBERS[whose]}, "spec": spec}
    answer = cluster.request("POST", "/api/v1/namespaces/default/pods?dryRun=All", pod)
    assert answer["kind"] == "Pod" or "failed calling webhook" in answer["message"], answer
    return bool(answer["kind"] == "Pod")


def job_comes_in(cluster: ControlPlane) -> bool:
    """Whether a Job in a queue of Kueue is admitted."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "pause"}]}}
    metadata = {"name": "j", "labels": {"kueue.x-k8s.io/queue-name": "q"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}
    answer = cluster.request("POST", "/apis/batch/v1/namespaces/default/jobs?dryRun=All", job)
    assert answer["kind"] == "Job" or "failed calling webhook" in answer["message"], answer
    return bool(answer["kind"] == "Job")


@pytest.mark.controlplane
def test_beside_another_system_its_pods_come_in_while_no_webhook_of_ours_answers(unanswered: ControlPlane) -> None:
    left = {
        "default": {"nobody"},
        "beside-kueue": {"nobody", "kueue", "kueue's place"},
        "beside-koordinator": {"nobody", "koordinator"},
        "beside-kai": {"nobody", "kai", "runai"},
    }
    for name, comes in left.items():
        register(unanswered, overlay(name))
        wait_until(lambda: all(comes_in(unanswered, each) for each in comes), 120, f"{name} to count")  # noqa: B023
        assert {each for each in MEMBERS if comes_in(unanswered, each)} == comes, name
        assert job_comes_in(unanswered) is (name == "beside-kueue")
