"""The page on reacting to gangs: its conditions hold for statuses that the controller writes, its alerts exist."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.gang_status import REASONS, Notes, Phase, gang_status
from controller.release.wholeness import WHOLE

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "controller"))
from gang_builders import gang, pod  # noqa: E402

PAGE = (ROOT / "docs" / "how-to" / "react-to-gangs.md").read_text()
NOW = "2026-11-21T12:00:00Z"


def blocks() -> list[Any]:
    """Return the objects of the page's YAML blocks that stand in no file."""
    return [yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)]


def status(phase: Phase, reason: str = "") -> dict[str, Any]:
    """Return the status of a gang of two pods in this phase."""
    whole = gang(pod("llm-0"), pod("llm-1"))
    return gang_status(whole, phase, now=NOW, notes=Notes(reason=reason))


def holds(condition: str, manifest: dict[str, Any]) -> bool:
    """Whether a condition of Argo Workflows holds: `path == value`."""
    path, _, wanted = condition.partition(" == ")
    found: Any = manifest
    for name in path.split("."):
        found = found[name]
    return bool(found == wanted)


@pytest.mark.parametrize("phase", Phase)
def test_argos_step_ends_when_the_gang_is_placed_or_can_never_fit(phase: Phase) -> None:
    workflow = blocks()[0]
    (step,) = [each["resource"] for each in workflow["spec"]["templates"] if each["name"] == "placed"]
    for reason in REASONS[phase]:
        manifest = {"status": status(phase, reason)}
        assert holds(step["successCondition"], manifest) is (phase is Phase.PLACED)
        assert holds(step["failureCondition"], manifest) is (reason == "NeverFits")


def test_argos_steps_name_one_gang() -> None:
    templates = {each["name"]: each for each in blocks()[0]["spec"]["templates"]}
    job, shown = (yaml.safe_load(templates[name]["resource"]["manifest"]) for name in ("submit", "placed"))
    assert job["metadata"]["annotations"]["phalanx.dev/gang"] == "true"
    assert job["metadata"]["name"] == shown["metadata"]["name"]


def test_the_page_names_every_condition() -> None:
    told = {each["type"] for each in status(Phase.PLACED)["conditions"]} | {WHOLE, "TimedOut"}
    table = PAGE.partition("| --- | --- |")[2].partition("\n\n")[0]
    assert {name for name in told if f"`{name}`" not in table} == set()


def test_alertmanagers_routes_match_alerts_with_their_labels() -> None:
    alerts = yaml.safe_load((ROOT / "manifests" / "monitoring" / "alerts.yaml").read_text())["groups"]
    rules = {rule["alert"]: rule for each in alerts for rule in each["rules"]}
    config = blocks()[1]
    routes = {each["receiver"]: each["matchers"] for each in config["route"]["routes"]}
    assert set(routes) < {each["name"] for each in config["receivers"]}
    pattern = re.search(r'alertname =~ "(.*)"', routes["team-a"][0])
    assert pattern is not None
    matched = [name for name in rules if re.fullmatch(pattern[1], name)]
    assert matched == ["PhalanxGangWaitsLong", "PhalanxGangNeverFits", "PhalanxGangIncomplete"]
    assert all("by (namespace" in rules[name]["expr"] for name in matched)
    for rule in config["inhibit_rules"]:
        for matcher in (*rule["source_matchers"], *rule["target_matchers"]):
            assert matcher.partition('"')[2].strip('"') in rules
