"""Gangs that exist before any controller leads: the first leader shows each by one Gang object, with its status.

objects  ● nodes ● PodGroup ● Job ● pods
leader                                   ● starts: makes the mirror, plans, marks the mirror, sees its own mirror
"""

from pathlib import Path

import pytest
import yaml
from system import Object, Phalanx, numbered, pod

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

HERE = Path(__file__).parents[1] / "faults" / "what_a_no_says"
GANGS = "/apis/phalanx.dev/v1alpha1/namespaces/default/gangs"


def read(name: str) -> list[Object]:
    return [each for each in yaml.safe_load_all((HERE / f"{name}.yaml").read_text()) if each]


def phases(phalanx: Phalanx) -> dict[str, str]:
    found = phalanx.cluster.request("GET", GANGS)["items"]
    return {each["metadata"]["name"]: each.get("status", {}).get("phase", "") for each in found}


def test_a_gang_that_was_there_before_its_leader_is_shown_once(phalanx: Phalanx) -> None:
    """A gang of KAI, whose mirror names node affinity, and one of Koordinator that gets a member at the same moment."""
    phalanx.make_namespace("kai-scheduler")
    phalanx.cluster.program("controller").kill()
    standing = [*read("nodes-racks"), *read("tas-config")]
    phalanx.submit(*standing)
    phalanx.cluster.await_nodes(each["metadata"]["name"] for each in standing if each["kind"] == "Node")
    members = [pod(name, cpu=1) for name in numbered("grows", 8)]
    for each in members:
        light = "pod-group.scheduling.sigs.k8s.io"
        each["metadata"]["labels"] = {f"{light}/name": "grows", f"{light}/min-available": "8"}
    phalanx.submit(*read("kai-too-big"), members[0])
    phalanx.deployment.start_controller()
    for each in members[1:]:
        phalanx.submit(each)
    phalanx.await_bound(numbered("grows", 8))
    phalanx.await_phase("grows", "Placed")
    phalanx.await_phase("big", "Unplaceable")
    assert phases(phalanx).keys() == {"big", "grows"}
