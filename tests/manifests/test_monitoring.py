"""Alert rules, dashboards and scraping: judged by promtool, and every metric and alert in them known elsewhere."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import REGISTRY

from controller.telemetry import recorder
from controller.telemetry.cluster_metrics import ClusterMetrics
from controller.telemetry.metrics import Metrics as ControllerMetrics
from controlplane.checkers import check
from kube.keys import SYSTEM_NAMESPACE
from webhook.metrics import Metrics as WebhookMetrics

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "manifests" / "monitoring"
CASES = Path(__file__).parent / "data" / "alerts-test.yaml"
RUNBOOKS = ROOT / "docs" / "reference" / "alerts.md"
DASHBOARDS = ("operators", "users")
FRESHNESS = {"phalanx_cache_synced", "phalanx_cache_age_seconds", "phalanx_watch_relists_total"}
"""Metrics of the watch caches. The registries of these tests have no caches; the page of metrics lists them."""


def alerts() -> list[dict[str, Any]]:
    """Return the alerting rules of all groups."""
    return [
        rule for group in yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
    ]


def expressions() -> list[str]:
    """Every query of the rules and of the dashboards."""
    boards = [json.loads((MONITORING / f"{name}.json").read_text()) for name in DASHBOARDS]
    asked = [target["expr"] for each in boards for panel in each["panels"] for target in panel.get("targets", ())]
    variables = [each["query"] for board in boards for each in board["templating"]["list"] if each["type"] == "query"]
    return [*(rule["expr"] for rule in alerts()), *dict.fromkeys([*asked, *variables])]


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


def test_the_dashboards_show_every_metric() -> None:
    asked = {
        re.sub(r"_(bucket|count|sum)$", "", name) for each in expressions() for name in re.findall(r"phalanx_\w+", each)
    }
    families = {re.sub(r"_(bucket|count|sum|created)$", "", name) for name in told() if name.startswith("phalanx_")}
    assert {name for name in families if f"{name}_total" not in families} == asked


def labels_of(name: str) -> set[str] | None:
    """Return the labels of a metric of the cluster; None for another metric."""
    found = {each.name: set(getattr(each, "_labelnames", ())) for each in ClusterMetrics().describe()}
    return found.get(name)


@pytest.mark.parametrize("expression", expressions())
def test_every_label_asked_for_is_told(expression: str) -> None:
    for name, selector in re.findall(r"(phalanx_\w+)\{([^}]*)\}", expression):
        known = labels_of(name)
        assert known is None or set(re.findall(r"(\w+)(?:=|!=|=~|!~)\"", selector)) <= known, expression


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_every_alert_says_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook"}
    assert rule["annotations"]["runbook"] == f"docs/reference/alerts.md#{rule['alert'].lower()}"
    runbook = RUNBOOKS.read_text().partition(f"\n## {rule['alert']}\n")[2].partition("\n## ")[0]
    assert all(f"**{part}.**" in runbook for part in ("Meaning", "Look", "Do")), rule["alert"]


def test_every_runbook_has_its_alert() -> None:
    headings = re.findall(r"^## (Phalanx\w+)$", RUNBOOKS.read_text(), re.MULTILINE)
    assert headings == [rule["alert"] for rule in alerts()]


def test_the_service_monitor_scrapes_ports_that_the_services_have() -> None:
    objects = list(yaml.safe_load_all((MONITORING / "service-monitor.yaml").read_text()))
    (monitor,) = [each for each in objects if each["kind"] == "ServiceMonitor"]
    files = (ROOT / "manifests" / "system" / f"{name}.yaml" for name in ("webhook", "controller"))
    services = [each for file in files for each in yaml.safe_load_all(file.read_text()) if each["kind"] == "Service"]
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    assert all(wanted <= each["metadata"]["labels"].items() for each in services)
    ports = [port["name"] for each in services for port in each["spec"]["ports"]]
    assert [each["port"] for each in monitor["spec"]["endpoints"]] == ports
    (binding,) = [each for each in objects if each["kind"] == "ClusterRoleBinding"]
    assert binding["roleRef"]["name"] == "phalanx-metrics"
