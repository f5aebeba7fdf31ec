"""`phalanx queue`: the quotas of the live cluster's queues, the gangs that use them, and the gangs that wait."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import click

from cli.live import live_cluster
from cli.options.looking import FORMAT, KUBECONFIG
from cli.text.ages import ahead, clock
from cli.text.columns import lines, table
from cli.text.structured import FORMATS, structured
from gangs.incremental.reading_apart import read_apart
from kube.keys import API_VERSION
from kube.quantities import written
from planning.queue_report import GangInQueue, QueueReport, as_data, queue_reports
from planning.quota.start_estimates import expected_ends_of

MOST_GANGS = 20
"""The most gangs that `phalanx queue` lists without a name. More gangs would push the quotas off a screen."""


@click.command(
    epilog="""\b
Examples:
  phalanx queue
  phalanx queue research
  phalanx queue team-a/training -o json
"""
)
@click.argument("name", metavar="[CLUSTERQUEUE | NAMESPACE/LOCALQUEUE]", required=False)
@FORMAT
@KUBECONFIG
def queue(name: str | None, *, output: str, kubeconfig: str | None) -> None:
    """Show the queues: used and free quota, the gangs that use it, and the waiting gangs in planning order.

    If the ends of running gangs are known, the estimated start of each waiting gang is shown. An end is known from
    activeDeadlineSeconds, or from the annotation phalanx.dev/expected-duration of a workload.

    Without a name, each quota has one line. If no more than 20 gangs use or wait for quota, they follow. A queue
    without gangs is shown if a queue of its cohort has gangs. Exit status 1: no gang uses or waits for the named queue.
    """
    live = live_cluster(kubeconfig)
    gangs, now = read_apart(live.sources).gangs, datetime.now(UTC)
    reports = queue_reports(gangs, live.snapshot, expected_ends_of(gangs, live.sources, now), now)
    if name is not None:
        reports = [each for each in reports if name == each.name or name in each.local_queues]
        if not reports:
            raise click.ClickException(f"no gang uses or waits for quota of queue {name}")
    if output in FORMATS:
        data = {"apiVersion": API_VERSION, "kind": "QueueReport", "queues": [as_data(each) for each in reports]}
        click.echo(structured(data, output), nl=False)
    elif not reports:
        click.echo("no gang is in a queue with a quota", err=True)
    elif name is None:
        click.echo(_overview(reports) + _few_gangs(reports, now), nl=False)
    else:
        click.echo("\n".join(_detail(each, now) for each in reports), nl=False)


def _overview(reports: Sequence[QueueReport]) -> str:
    rows = [
        [
            each.name,
            quota.flavor,
            quota.resource,
            *_amounts(quota.resource, quota.nominal, quota.used, quota.borrowed, quota.lent, quota.free),
            str(len(each.using)),
            str(len(each.waiting)),
        ]
        for each in reports
        for quota in each.quotas
    ]
    titles = ("QUEUE", "FLAVOR", "RESOURCE", "NOMINAL", "USED", "BORROWED", "LENT", "FREE", "RUNNING", "WAITING")
    return lines(table(titles, rows))


def _few_gangs(reports: Sequence[QueueReport], now: datetime) -> str:
    """Return the gangs of each queue; "" if there are more than `MOST_GANGS`."""
    if sum(len(each.using) + len(each.waiting) for each in reports) > MOST_GANGS:
        return ""
    gangs = [(each, _gangs(each, now)) for each in reports]
    return "".join(f"\n{_title(report)}\n{text}" for report, text in gangs if text)


def _title(report: QueueReport) -> str:
    return f"ClusterQueue {report.name}" + (f", cohort {report.cohort}" if report.cohort else "")


def _detail(report: QueueReport, now: datetime) -> str:
    quotas = [
        [
            each.flavor,
            each.resource,
            *_amounts(each.resource, each.nominal, each.used, each.borrowed, each.lent, each.free),
        ]
        for each in report.quotas
    ]
    titles = ("FLAVOR", "RESOURCE", "NOMINAL", "USED", "BORROWED", "LENT", "FREE")
    return f"{_title(report)}\n\n{lines(table(titles, quotas))}{_gangs(report, now)}"


def _gangs(report: QueueReport, now: datetime) -> str:
    """Return tables of the gangs that use the queue's quota and of those that wait for it; "" if there are none."""
    text = ""
    if report.using:
        rows = [[*_cells(each), _ahead(each.expected_end, now)] for each in report.using]
        text += "\n" + lines(table(("USES THE QUOTA", "QUEUE", "AMOUNTS", "EXPECTED END"), rows))
    if report.waiting:
        rows = [[*_cells(each), _start(each, now)] for each in report.waiting]
        text += "\n" + lines(table(("WAITS, THE NEXT ONE FIRST", "QUEUE", "AMOUNTS", "ESTIMATED START"), rows))
    return text


def _ahead(at: datetime | None, now: datetime) -> str:
    """Return how long from now a time is, and the time, such as "in 5m30s, 14:05 UTC"; "" for None."""
    return "" if at is None else f"{ahead(at, now)}, {clock(at, now)}"


def _start(gang: GangInQueue, now: datetime) -> str:
    """Return the estimated start of a waiting gang, with the gang whose end decides; "" if it is unknown."""
    after = gang.start_after
    when = _ahead(gang.estimated_start, now)
    return f"{when}, when {after.namespace}/{after.name} ends" if when and after else when


def _cells(gang: GangInQueue) -> Iterator[str]:
    yield f"{gang.key.namespace}/{gang.key.name}"
    yield gang.local_queue
    yield ", ".join(f"{written(name, amount)} {name}" for name, amount in sorted(gang.amounts.items()))


def _amounts(resource: str, *amounts: int) -> list[str]:
    return [written(resource, amount) for amount in amounts]
