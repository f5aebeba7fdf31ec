"""podCountMultiple of Koordinator's strategies, in a dry run on the guide's cluster of spines with 5, 4 and 3 nodes."""

import json
from collections import Counter
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from cli.main import group

GUIDE = Path(__file__).parents[2] / "examples" / "koordinator"
GROUP = "pod-group.scheduling.sigs.k8s.io"
SPEC = "gang.scheduling.koordinator.sh/network-topology-spec"


def spines(pods: int, multiple: int) -> Counter[str]:
    """How many of the pods, which take a node each, go to each spine."""
    strategy = {"layer": "SpineLayer", "strategy": "PreferGather", "podCountMultiple": multiple}
    metadata = {"name": "llm", "annotations": {SPEC: json.dumps({"gatherStrategy": [strategy]})}}
    api = "scheduling.sigs.k8s.io/v1alpha1"
    gang = {"apiVersion": api, "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": pods}}
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "8"}}}
    members = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"llm-{i}", "labels": {GROUP: "llm"}},
            "spec": {"containers": [container]},
        }
        for i in range(pods)
    ]
    cluster = [part for name in ("nodes", "cluster-network-topology") for part in ("-f", str(GUIDE / f"{name}.yaml"))]
    asked = yaml.safe_dump_all([gang, *members])
    result = CliRunner().invoke(
        group, ["solve", *cluster, "-f", "-", "-o", "json"], input=asked, catch_exceptions=False
    )
    (report,) = json.loads(result.stdout)["gangs"]
    return Counter(
        {domain["path"][0]: domain["pods"] for domain in (report["levels"] or [{"domains": []}])[0]["domains"]}
    )


SHARES = {
    "fours: spine-0 holds five, and takes four": (8, 4, {"spine-0": 4, "spine-1": 4}),
    "threes: three spines hold one each": (9, 3, {"spine-0": 3, "spine-1": 3, "spine-2": 3}),
    "ones: any number goes": (8, 1, {"spine-0": 5, "spine-2": 3}),
}


@pytest.mark.parametrize(("pods", "multiple", "expected"), SHARES.values(), ids=SHARES)
def test_each_spine_takes_a_multiple(pods: int, multiple: int, expected: dict[str, int]) -> None:
    assert spines(pods, multiple) == expected
