"""`phalanx queue`: the quotas of the live cluster's queues, the gangs that use them, and the gangs that wait."""

from collections.abc import Iterator, Sequence

import click

from cli.live import live_cluster
from cli.options.looking import FORMAT, KUBECONFIG
from cli.text.columns import lines, table
from cli.text.structured import FORMATS, structured
from gangs.incremental.reading_apart import read_apart
from kube.keys import API_VERSION
from kube.quantities import written
from planning.queue_report import GangInQueue, QueueReport, as_data, queue_reports


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
    """Show the queues: the used and free quota, the gangs that use it, and the gangs that wait, in planning order.

    Without a name, one line for each quota. Queues without gangs are shown if a queue of their cohort has gangs. Exit
    status 1: no gang has this queue.
    """
    live = live_cluster(kubeconfig)
    reports = queue_reports(read_apart(live.sources).gangs, live.snapshot)
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
        click.echo(_overview(reports), nl=False)
    else:
        click.echo("\n".join(_detail(each) for each in reports), nl=False)


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


def _detail(report: QueueReport) -> str:
    cohort = f", cohort {report.cohort}" if report.cohort else ""
    quotas = [
        [
            each.flavor,
            each.resource,
            *_amounts(each.resource, each.nominal, each.used, each.borrowed, each.lent, each.free),
        ]
        for each in report.quotas
    ]
    text = f"ClusterQueue {report.name}{cohort}\n\n"
    text += lines(table(("FLAVOR", "RESOURCE", "NOMINAL", "USED", "BORROWED", "LENT", "FREE"), quotas))
    for title, gangs in (("USES THE QUOTA", report.using), ("WAITS, THE NEXT ONE FIRST", report.waiting)):
        if gangs:
            text += "\n" + lines(table((title, "QUEUE", "AMOUNTS"), [list(_cells(each)) for each in gangs]))
    return text


def _cells(gang: GangInQueue) -> Iterator[str]:
    yield f"{gang.key.namespace}/{gang.key.name}"
    yield gang.local_queue
    yield ", ".join(f"{written(name, amount)} {name}" for name, amount in sorted(gang.amounts.items()))


def _amounts(resource: str, *amounts: int) -> list[str]:
    return [written(resource, amount) for amount in amounts]
