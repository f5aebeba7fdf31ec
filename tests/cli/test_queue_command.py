"""`phalanx queue` on the local API server.

ClusterQueue research: 8 cpu      ns/training: `first` runs with 8 cpu, `second` waits for 4
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from local_api.server import LocalApi, local_api
from node_manifests import node_manifest

from cli.main import group
from kube.keys import GATE

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"


def pod(name: str, of: str, total: int, **spec: Any) -> dict[str, Any]:
    """A pod of 4 cpu of one of Kueue's pod groups."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "4"}}}
    labels = {"kueue.x-k8s.io/pod-group-name": of, "kueue.x-k8s.io/queue-name": "training"}
    annotations = {"kueue.x-k8s.io/pod-group-total-count": str(total)}
    metadata = {"name": name, "namespace": "default", "labels": labels, "annotations": annotations}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Any]:
    """A function that runs `phalanx queue` with arguments."""
    with local_api() as api:
        kubeconfig = api.kubeconfig(tmp_path)
        _furnish(api)

        def run(*arguments: str) -> Result:
            return CliRunner().invoke(group, ["queue", *arguments, "--kubeconfig", kubeconfig])

        yield run


def _furnish(api: LocalApi) -> None:
    api.create("/api/v1/namespaces", {"metadata": {"name": "default"}})
    api.create("/api/v1/nodes", *(node_manifest(f"n{at}", cpu=8) for at in range(2)))
    flavors = [{"name": "any", "resources": [{"name": "cpu", "nominalQuota": "8"}]}]
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    queue = {"metadata": {"name": "research"}, "spec": {"namespaceSelector": {}, "resourceGroups": groups}}
    api.create(f"{KUEUE}/resourceflavors", {"metadata": {"name": "any"}, "spec": {}})
    api.create(f"{KUEUE}/clusterqueues", queue)
    local = {"metadata": {"name": "training", "namespace": "default"}, "spec": {"clusterQueue": "research"}}
    api.create(f"{KUEUE}/namespaces/default/localqueues", local)
    pods = "/api/v1/namespaces/default/pods"
    for at in range(2):
        api.ask("POST", pods, pod(f"first-{at}", "first", 2, nodeName=f"n{at}"))
    api.create(pods, pod("second-0", "second", 1, schedulingGates=[{"name": GATE}]))


def test_the_overview_has_a_line_for_each_quota(asked: Any) -> None:
    answer = asked()
    assert answer.exit_code == 0, answer.output
    head, line = answer.output.partition("\n\n")[0].splitlines()
    assert head.split() == [
        "QUEUE",
        "FLAVOR",
        "RESOURCE",
        "NOMINAL",
        "USED",
        "BORROWED",
        "LENT",
        "FREE",
        "RUNNING",
        "WAITING",
    ]
    assert line.split() == ["research", "any", "cpu", "8", "8", "0", "0", "0", "1", "1"]


def test_the_overview_lists_the_gangs_while_they_are_few(asked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    few = asked().output
    assert "\nClusterQueue research\n\nUSES THE QUOTA" in few
    assert [line.split()[0] for line in few.splitlines() if line.startswith("default/")] == [
        "default/first",
        "default/second",
    ]
    monkeypatch.setattr("cli.terminal.queues.MOST_GANGS", 1)
    assert len(asked().output.splitlines()) == 2


@pytest.mark.parametrize("name", ["research", "default/training"])
def test_a_queue_names_the_gangs_that_use_it_and_those_that_wait(asked: Any, name: str) -> None:
    lines = [line.split() for line in asked(name).output.splitlines()]
    assert ["default/first", "default/training", "8", "cpu"] in lines
    assert ["default/second", "default/training", "4", "cpu"] in lines


def test_programs_get_amounts_in_base_units(asked: Any) -> None:
    (queue,) = yaml.safe_load(asked("-o", "yaml").output)["queues"]
    assert queue["quotas"][0] | {"flavor": "any"} == {
        "flavor": "any",
        "resource": "cpu",
        "nominal": 8000,
        "used": 8000,
        "borrowed": 0,
        "lent": 0,
        "free": 0,
        "borrowingLimit": None,
        "lendingLimit": None,
    }
    assert [each["name"] for each in queue["waiting"]] == ["second"]


def test_an_unknown_queue_is_an_error(asked: Any) -> None:
    answer = asked("nowhere")
    assert answer.exit_code == 1
    assert "Error: no gang uses or waits for quota of queue nowhere" in answer.output
