"""Alert rules and dashboard: judged by promtool, and every metric and alert in them known elsewhere."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import REGISTRY

from controller.telemetry import recorder
from controller.telemetry.metrics import Metrics as ControllerMetrics
from controlplane.checkers import check
from kube.keys import SYSTEM_NAMESPACE
from webhook.metrics import Metrics as WebhookMetrics

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "manifests" / "monitoring"
CASES = Path(__file__).parent / "data" / "alerts-test.yaml"
FRESHNESS = {"phalanx_cache_synced", "phalanx_cache_age_seconds", "phalanx_watch_relists_total"}
"""Metrics of the watch caches. The registries of these tests have no caches; the page of metrics lists them."""


def alerts() -> list[dict[str, Any]]:
    """Return the alerting rules of all groups."""
    return [
        rule for group in yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
    ]


def expressions() -> list[str]:
    """Every query of the rules and of the dashboard."""
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return [*(rule["expr"] for rule in alerts()), *asked]


def told() -> set[str]:
    """Return the names of all series that the servers export."""
    assert recorder.EVENTS is not None
    registries = (ControllerMetrics().registry, WebhookMetrics().registry, REGISTRY)
    return FRESHNESS.union(*(registry._names_to_collectors for registry in registries))  # noqa: SLF001 - no public reader


@pytest.mark.controlplane
@pytest.mark.long
def test_promtool_finds_nothing_wrong_with_the_rules() -> None:
    answer = check("promtool", "check", "rules", "--lint=all", "--lint-fatal", str(MONITORING / "alerts.yaml"))
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.controlplane
@pytest.mark.long
def test_the_rules_fire_in_trouble_and_are_silent_otherwise(tmp_path: Path) -> None:
    shutil.copy(MONITORING / "alerts.yaml", tmp_path)
    shutil.copy(CASES, tmp_path)
    answer = check("promtool", "test", "rules", str(tmp_path / CASES.name))
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.controlplane
@pytest.mark.long
def test_promtool_finds_nothing_wrong_with_the_documented_scrape_configuration(tmp_path: Path) -> None:
    """All but the finding of pods: this promtool is built without it."""
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    written = page.partition("## A scrape configuration")[2].partition("```yaml\n")[2].partition("```")[0]
    configuration = yaml.safe_load(written)
    (job,) = configuration["scrape_configs"]
    assert job.pop("kubernetes_sd_configs")[0]["namespaces"] == {"names": [SYSTEM_NAMESPACE]}
    file = tmp_path / "prometheus.yaml"
    file.write_text(yaml.safe_dump(configuration))
    answer = check("promtool", "check", "config", "--syntax-only", str(file))
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize("expression", expressions())
def test_every_metric_asked_for_is_told(expression: str) -> None:
    asked = set(re.findall(r"phalanx_\w+", expression))
    assert asked
    assert asked <= told()


def test_the_dashboard_shows_every_metric() -> None:
    asked = {
        re.sub(r"_(bucket|count|sum)$", "", name) for each in expressions() for name in re.findall(r"phalanx_\w+", each)
    }
    families = {re.sub(r"_(bucket|count|sum|created)$", "", name) for name in told() if name.startswith("phalanx_")}
    assert {name for name in families if f"{name}_total" not in families} == asked


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_every_alert_says_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert set(rule["annotations"]) == {"summary", "description"}
    assert f"| `{rule['alert']}` |" in (ROOT / "docs" / "operations.md").read_text()
