"""The explanation of a rejection in a live cluster equals that of `phalanx solve` for the same files.

The texts are compared line by line.
"""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from system import Object, Phalanx, one_line

from cli.main import group

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

HERE = Path(__file__).parents[1] / "faults" / "what_a_no_says"
ELSEWHERE = ("kai-scheduler", "ml-training")

SCENES = {
    "a domain that is too small": ("default/big", ("nodes-racks", "tas-config"), ("kai-too-big",)),
    "a label that is missing": (
        "ml-training/multi-node-training",
        ("kai-nodes-guide-labels", "tas-config"),
        ("multi-node-tas", "trainer-node-1"),
    ),
    "a node pool that no node is in": ("default/np", ("runai-nodes", "topology-zone"), ("runai-nodepool-nosuch",)),
}


def answer(*arguments: str) -> list[str]:
    """Return the lines that a command prints after the headline, with runs of blanks reduced to one."""
    text = CliRunner().invoke(group, list(arguments), catch_exceptions=False).stdout
    return [" ".join(line.split()) for line in text.splitlines()[1:]]


def explanation(lines: list[str]) -> list[str]:
    """The message, the nearest domains and the remedies."""
    nearest = next((place for place, line in enumerate(lines) if line.startswith("NEAREST")), len(lines))
    table = [line for line in lines[nearest:] if line and not line.startswith(("would", "SEEN"))]
    end = next((place for place, line in enumerate(table) if line.split()[0][-1] in "smhd" and line[0].isdigit()), None)
    return [lines[0], *table[:end], *(line for line in lines if line.startswith("would fit if"))]


def asking(*names: str) -> list[str]:
    """The options that give a command some files."""
    return [part for name in names for part in ("-f", str(HERE / f"{name}.yaml"))]


def read(*names: str) -> list[Object]:
    """The objects of some files."""
    return [each for name in names for each in yaml.safe_load_all((HERE / f"{name}.yaml").read_text()) if each]


@pytest.mark.parametrize(
    ("gang", "there", "asked"),
    [
        pytest.param(*scene, id=name, marks=[] if name == "a domain that is too small" else pytest.mark.long)
        for name, scene in SCENES.items()
    ],
)
def test_a_no_is_the_same_live_and_in_files(
    phalanx: Phalanx, gang: str, there: tuple[str, ...], asked: tuple[str, ...]
) -> None:
    for name in ELSEWHERE:
        phalanx.make_namespace(name)
    standing = read(*there)
    phalanx.submit(*standing)
    phalanx.cluster.await_nodes(each["metadata"]["name"] for each in standing if each["kind"] == "Node")
    told = one_line(phalanx.apply(*read(*asked)))
    namespace, _, name = gang.partition("/")
    path = f"/apis/phalanx.dev/v1alpha1/namespaces/{namespace}/gangs/{name}"

    def refused() -> bool:
        found = phalanx.cluster.request("GET", path)
        return bool(found["kind"] == "Gang" and (found.get("status") or {}).get("phase") == "Unplaceable")

    phalanx.wait(refused, f"gang {gang} to be told that there is no place")
    solve = answer("solve", *asking(*there, *asked))
    kubeconfig = ["--kubeconfig", str(phalanx.cluster.kubeconfig)]
    why = answer("why", gang, *kubeconfig)
    live = answer("solve", "--cluster", "live", *kubeconfig, *asking(*asked))
    assert explanation(why) == explanation(solve)
    assert explanation(live) == explanation(solve)
    first = (
        "waits for 1 more pod: 1 of 2 exist"
        if any(each["kind"] == "Pod" for each in read(*asked))
        else explanation(solve)[0]
    )
    assert first in told
