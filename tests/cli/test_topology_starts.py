"""`phalanx topology --starts` on the local API server: the largest start and the fragmentation of each level.

rack a: a0 free, a1 runs 4 of 8 GPUs     rack b: b0 and b1 run 8 each
"""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from local_api.server import local_api
from node_manifests import node_manifest

from cli.main import group

GPU = "nvidia.com/gpu"


@pytest.fixture
def told(tmp_path: Path) -> Any:
    """A function that returns the output of the command with arguments."""
    with local_api() as api:
        kubeconfig = api.kubeconfig(tmp_path)
        api.create("/api/v1/namespaces", {"metadata": {"name": "default"}})
        names, gpus = ("a0", "a1", "b0", "b1"), dict[str, Any]({GPU: "8"})
        api.create("/api/v1/nodes", *(node_manifest(each, {"rack": each[0]}, **gpus) for each in names))
        levels = [{"name": "rack", "nodeLabel": "rack"}]
        api.create("/apis/phalanx.dev/v1alpha1/topologies", {"metadata": {"name": "dc"}, "spec": {"levels": levels}})
        for node, used in (("a1", 4), ("b0", 8), ("b1", 8)):
            container = {"name": "main", "image": "none", "resources": {"requests": {GPU: str(used)}}}
            spec = {"nodeName": node, "containers": [container]}
            body = {"metadata": {"name": f"on-{node}", "namespace": "default"}, "spec": spec}
            api.ask("POST", "/api/v1/namespaces/default/pods", body)

        def run(*arguments: str) -> str:
            answer = CliRunner().invoke(group, ["topology", "--kubeconfig", kubeconfig, *arguments])
            assert answer.exit_code == 0, answer.output
            return answer.output

        yield run


def test_each_size_has_its_best_domain_on_each_level(told: Any) -> None:
    table = [line.split("   ") for line in told("--starts").split("\n\n")[-1].splitlines()]
    rows = [[cell.strip() for cell in row if cell.strip()] for row in table]
    assert rows == [
        ["PODS THAT COULD START NOW", "ONE CLUSTER", "ONE RACK", "ONE NODE"],
        ["1 nvidia.com/gpu each", "12", "12 in a", "8 in a/a0"],
        ["2 nvidia.com/gpu each", "6", "6 in a", "4 in a/a0"],
        ["4 nvidia.com/gpu each", "3", "3 in a", "2 in a/a0"],
        ["8 nvidia.com/gpu each", "1", "1 in a", "1 in a/a0"],
        ["fragmentation, nvidia.com/gpu", "100%", "100%", "33%"],
    ]


def test_the_plain_tree_ends_with_the_largest_starts_above_the_nodes(told: Any) -> None:
    first, largest = "12 pods of 1 nvidia.com/gpu in a", "1 pod of 8 nvidia.com/gpu in a"
    line = f"Could start now in one rack, without evictions: {first}; {largest}. All levels and sizes: --starts"
    assert told().splitlines()[-1] == line
    assert told("--level", "node").splitlines()[-1] == line


def test_programs_get_them_in_base_units(told: Any) -> None:
    (topology,) = yaml.safe_load(told("--starts", "-o", "json"))["topologies"]
    assert {"level": "rack", "resource": GPU, "size": 8, "pods": 1, "path": ["a"]} in topology["starts"]
    assert {"level": "node", "resource": GPU, "ratio": 0.3333} in topology["fragmentation"]
    assert "starts" not in yaml.safe_load(told("-o", "json"))["topologies"][0]
