"""The examples with levels below the node and with ComputeDomains, through `phalanx solve`."""

import json
import re
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli.main import group

EXAMPLES = Path(__file__).parents[2] / "examples"


def solved(folder: str, change: Callable[[str], str] = str, *, status: int = 0) -> dict[str, Any]:
    """Return the report on the one gang of an example. `change`: a change of the text of its files."""
    text = "\n---\n".join(change(path.read_text()) for path in sorted((EXAMPLES / folder).glob("*.yaml")))
    result = CliRunner().invoke(group, ["solve", "-f", "-", "-o", "json"], input=text, catch_exceptions=False)
    assert result.exit_code == status, result.output
    (gang,) = json.loads(result.stdout)["gangs"]
    found: dict[str, Any] = gang
    return found


def gpus(gang: dict[str, Any]) -> list[list[str]]:
    """The GPUs of each pod."""
    return [
        [each["device"] for each in one["devices"] if each["driver"] == "gpu.nvidia.com"] for one in gang["assignments"]
    ]


def numbers(devices: list[str]) -> list[int]:
    """The numbers in the names of GPUs."""
    return [int(each.removeprefix("gpu-")) for each in devices]


def interleaved(text: str) -> str:
    """Give neighbouring GPUs different NVLink domains."""
    domains = count()
    return re.sub(r"nvlinkDomain: \{int: \d\}", lambda _: f"nvlinkDomain: {{int: {next(domains) % 2}}}", text)


def one_node(text: str) -> str:
    """Remove the second node."""
    return "\n---\n".join(each for each in text.split("\n---\n") if "hgx-02" not in each)


def test_the_tutorials_pods_have_their_gpus_in_one_nvlink_domain_each() -> None:
    gang = solved("kai-claims")
    assert (gang["outcome"], gang["proof"]) == ("Placed", "Optimal")
    assert gang["message"] == "4 pods fit on hgx-01, proven optimal; their devices are in 2 domains of nvlink-domain"
    assert [{each // 4 for each in numbers(pod)} for pod in gpus(gang)] == [{0}, {0}, {1}, {1}]
    goal = next(each for each in gang["objective"] if each["goal"] == "compactness/nvlink-domain" and "parts" in each)
    assert goal == {
        "goal": "compactness/nvlink-domain",
        "value": 2,
        "bound": 2,
        "parts": {"gang": 2, "members": 4},
    }
    level = gang["levels"][-1]
    assert (level["level"], level["label"], level["mode"]) == (
        "nvlink-domain",
        "gpu.nvidia.com/nvlinkDomain",
        "required",
    )


def test_the_order_of_the_gpus_does_not_matter() -> None:
    gang = solved("kai-claims", lambda text: interleaved(one_node(text)))
    assert gang["proof"] == "Optimal"
    assert all(len({each % 2 for each in numbers(pod)}) == 1 for pod in gpus(gang))


def test_two_pods_share_one_domain() -> None:
    def two(text: str) -> str:
        return text.replace("minMember: 4", "minMember: 2").replace("s: 4", "s: 2").replace("m: 4", "m: 2")

    gang = solved("kai-claims", lambda text: two(interleaved(one_node(text))))
    assert gang["message"] == "2 pods fit on hgx-01, proven optimal; their devices are in 1 domain of nvlink-domain"


@pytest.mark.parametrize(("scope", "level"), [("numa", "numa-node"), ("numa-node", "numa-node")])
def test_the_scope_of_a_numa_node_is_found_by_its_standard_attribute(scope: str, level: str) -> None:
    gang = solved("kai-claims", lambda text: text.replace("scope: nvlink-domain", f"scope: {scope}"))
    assert gang["message"] == f"4 pods fit on hgx-01, proven optimal; their devices are in 2 domains of {level}"


def test_the_scope_of_a_gpu_takes_pods_of_one_gpu_each() -> None:
    def one_gpu(text: str) -> str:
        return text.replace("scope: nvlink-domain", "scope: gpu").replace("count: 2", "count: 1")

    gang = solved("kai-claims", one_gpu)
    assert (gang["proof"], [len(each) for each in gpus(gang)]) == ("Optimal", [1] * 4)
    two_gpus = solved("kai-claims", lambda text: text.replace("scope: nvlink-domain", "scope: gpu"), status=3)
    assert (two_gpus["outcome"], two_gpus["proof"]) == ("Unplaceable", "Infeasible")


def test_a_scope_that_no_driver_publishes_waits_with_the_attribute() -> None:
    gang = solved("kai-claims", lambda text: text.replace("nvlinkDomain: {int", "otherDomain: {int"), status=3)
    assert gang["outcome"] == "Waiting"
    assert 'the level "nvlink-domain" below the node' in gang["message"]
    assert "(gpu.nvidia.com/nvlinkDomain)" in gang["message"]


def test_a_gang_with_a_compute_domain_is_in_one_clique_with_free_channels() -> None:
    gang = solved("gb200")
    assert gang["message"] == "3 pods fit in rack-1.0: rack-1-node-0..2, proven optimal"
    channels = [[each for each in pod["devices"] if each["device"] == "channel-0"] for pod in gang["assignments"]]
    assert [len(each) for each in channels] == [1, 1, 1]


def test_a_node_serves_one_claim_of_a_channel() -> None:
    """Pods of one GPU: each node has GPUs for four such pods, but one channel."""

    def four_small_pods(text: str) -> str:
        return text.replace("count: 4", "count: 1").replace("s: 3", "s: 4").replace("m: 3", "m: 4")

    four = solved("gb200", four_small_pods, status=3)
    assert (four["outcome"], four["proof"]) == ("Unplaceable", "Infeasible")


def test_a_pod_slot_is_left_for_the_daemon_of_the_compute_domain() -> None:
    """The nodes of rack 1 have one pod slot each, which the pod itself would take."""

    def with_slots(text: str, slots: int) -> str:
        head, rack, tail = text.partition("metadata: {name: rack-1-node-0, ")
        return head + rack + tail.replace('pods: "110"', f'pods: "{slots}"')

    full = solved("gb200", lambda text: with_slots(text, 1), status=3)
    assert (full["outcome"], full["proof"]) == ("Unplaceable", "Infeasible")
    assert solved("gb200", lambda text: with_slots(text, 2))["outcome"] == "Placed"
