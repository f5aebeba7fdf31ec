"""The page of metrics against the code: every metric, phase, reason, outcome, proof and cause has its line there."""

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from cluster.caches.cache import ClusterCache
from cluster.caches.freshness import Freshness
from controller import gang_status as statuses
from controller.gang_status import Phase
from controller.release.next_step import Cause
from controller.status.reporting import EVENT_OF_CAUSE, EVENT_OF_PHASE
from controller.telemetry.events import REASONS
from controller.telemetry.metrics import Metrics as ControllerMetrics
from planning.decision import Outcome
from solver.plan import Proof
from webhook.metrics import Metrics as WebhookMetrics

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text()
EVENTS_PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "events.md").read_text()

_SUFFIX = {"counter": "_total"}


def rows_of(registry: CollectorRegistry) -> list[str]:
    """The table's rows for what a registry holds, in the order in which it was made."""
    rows = []
    for collector in registry._collector_to_names:  # noqa: SLF001 - the library has no public reader
        for family in collector.describe() if hasattr(collector, "describe") else ():
            names = getattr(collector, "_labelnames", ()) or getattr(family, "_labelnames", ())
            labels = ", ".join(f"`{label}`" for label in names)
            name = family.name + _SUFFIX.get(family.type, "")
            rows.append(f"| `{name}` | {family.type} | {labels} | {family.documentation}. |")
    return rows


def freshness_rows() -> list[str]:
    class Caches:
        def synced(self) -> bool:
            return True

        def age(self) -> float:
            return 0.0

        def relists(self) -> int:
            return 0

    rows = []
    for family in Freshness(Caches()).collect():
        name = family.name + _SUFFIX.get(family.type, "")
        rows.append(f"| `{name}` | {family.type} |  | {family.documentation}. |")
    return rows


def section(title: str) -> list[str]:
    """The rows of the table below a heading."""
    below = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    return [line for line in below.splitlines() if line.startswith("| `")]


def test_every_metric_of_the_controller_has_its_row() -> None:
    assert section("Metrics of the controller") == rows_of(ControllerMetrics().registry) + freshness_rows()


def test_every_metric_of_the_webhook_has_its_row() -> None:
    assert section("Metrics of the webhook") == rows_of(WebhookMetrics().registry) + freshness_rows()


def test_every_phase_has_its_reasons_and_its_event() -> None:
    wanted = [
        f"| `{phase.value}` | {', '.join(f'`{each}`' for each in statuses.REASONS[phase])} "
        f"| `{EVENT_OF_PHASE[phase].name}` |"
        for phase in Phase
    ]
    assert section("Phases, reasons, events") == wanted


def test_every_cause_has_its_event() -> None:
    wanted = [f"| `{cause.value}` | `{EVENT_OF_CAUSE[cause].name}` |" for cause in Cause]
    assert section("Why a plan is invalidated before the release") == wanted


@pytest.mark.parametrize("event", [*EVENT_OF_PHASE.values(), *EVENT_OF_CAUSE.values()], ids=lambda each: each.name)
def test_every_event_named_there_is_in_the_table_of_events(event: object) -> None:
    assert event in REASONS
    assert f"| `{getattr(event, 'name', '')}` |" in EVENTS_PAGE


def test_every_outcome_and_proof_is_a_label_that_the_page_names() -> None:
    outcomes = ", ".join(each.value for each in Outcome)
    proofs = ", ".join(each.value for each in Proof)
    assert f"by `outcome` (`{outcomes}`)" in PAGE
    assert f"`proof` (`{proofs}`" in PAGE


def test_the_caches_have_what_is_told_of_them() -> None:
    assert all(hasattr(ClusterCache, name) for name in ("synced", "age", "relists"))
