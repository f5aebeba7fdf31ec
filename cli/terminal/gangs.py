"""`phalanx gangs`: one line for every gang of any dialect, and with `--all` for every gang that has ended."""

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from cli.asking.api_requests import asked, gang_objects, gangs_path, own_namespace
from cli.asking.offered_names import gang_names, namespaces
from cli.asking.progress import waiting
from cli.asking.watching import Source, changes
from cli.ended_gangs import RecordReader, history_path
from cli.options.looking import KUBECONFIG, SERVER, SERVICE_ACCOUNT, WATCH
from cli.text.ages import age, lasting
from cli.text.columns import Columns, lines, table
from cli.text.ended_text import accelerator_hours
from cli.text.structured import FORMATS, Json, document, structured
from cli.webhook_requests import webhook_answer
from gangs.mirrors import mirrored_key
from gangs.model import Manifest
from kube.keys import API_VERSION
from kube.names import natural_key

GONE = "gone"
"""The text in the column of the phase for a deleted gang."""
_TITLES = ("NAME", "PHASE", "PODS", "DOMAIN", "REASON", "AGE")
CSV = "csv"
_ENDED = ("NAME", "OUTCOME", "PODS", "WAITED", "FOR", "RAN", "GPU-HOURS", "EVICTIONS", "RESTARTS", "ENDED")
_ENDED_WIDE = ("SUBMITTED", "STARTED", "FINISHED", "DOMAIN", "QUEUE", "DIALECT")
_WIDE = ("REQUIRED", "PREFERRED", "DIALECT", "PROOF", "MESSAGE")


@click.command(
    epilog="""\b
Examples:
  phalanx gangs -A
  phalanx gangs -n research -o wide --watch
  phalanx gangs -A --all
  phalanx gangs -A --all -o csv
"""
)
@click.argument("names", metavar="[GANG]...", nargs=-1, shell_complete=gang_names)
@click.option("-n", "--namespace", shell_complete=namespaces, help="Default: the current context's.")
@click.option("-A", "--all-namespaces", is_flag=True, help="List the gangs of all namespaces.")
@click.option(
    "--all", "ended", is_flag=True, help="Also list the gangs that ended within a day, as the webhook recorded them."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", *FORMATS, CSV]),
    default="table",
    show_default=True,
    help="Output format; wide: a table with more columns; csv: only the gangs that have ended.",
)
@WATCH
@KUBECONFIG
@SERVICE_ACCOUNT
@SERVER
def gangs(
    names: Sequence[str],
    *,
    namespace: str | None,
    all_namespaces: bool,
    ended: bool,
    output: str,
    watch: bool,
    kubeconfig: str | None,
    service_account: str | None,
    server: str | None,
) -> None:
    """List the gangs, each with its phase, its bound pods, its domain and the reason for its phase.

    The last line counts the gangs that ended within a day, if the webhook can be reached without a forwarded port. With
    --all, these gangs follow: how long each waited and for what, how long it ran, and what it used.
    The webhook records them from its start, for a day at most. To read the record, you need the ClusterRole
    phalanx-viewer.

    Exit status 1: a gang that you named does not exist.
    """
    if ended and watch:
        raise click.UsageError("--all shows what has ended once: leave out --watch")
    if output == CSV and not ended:
        raise click.UsageError("-o csv is for gangs that have ended: add --all")
    transport = asked(kubeconfig)
    within = None if all_namespaces else namespace or own_namespace(kubeconfig)
    if output == CSV:
        click.echo(webhook_answer(history_path(within, CSV), kubeconfig, service_account, server), nl=False)
        return
    past: list[Json] | None = None
    if ended:
        with waiting("asking the webhook"):
            recorded = RecordReader(kubeconfig, service_account, server).gangs(within)
        past = [each for each in recorded if not names or each["name"] in names]
    with waiting("asking the cluster"):
        found = [each for each in gang_objects(transport, within) if not names or each["metadata"]["name"] in names]
    known = {each["metadata"]["name"] for each in found} | {each["name"] for each in past or ()}
    missing = [name for name in names if name not in known]
    found.sort(key=lambda each: natural_key(f"{each['metadata']['namespace']}/{each['metadata']['name']}"))
    listing = Listing(output, namespaces=all_namespaces)
    listing.show(found, within, past)
    whole = not (ended or names or watch or output in FORMATS)
    click.echo(_hint(RecordReader(kubeconfig, service_account, server), within, whole=whole), nl=False, err=True)
    for name in missing:
        click.echo(f"Error: no gang {f'{within}/' if within else ''}{name}", err=True)
    if watch:
        for manifest, there in changes(transport, Source(gangs_path(within), found)):
            if not names or manifest["metadata"]["name"] in names:
                listing.tell(manifest, there=there)
    if missing:
        raise SystemExit(1)


def at_terminal() -> bool:
    """Return whether messages are printed to a terminal, so that a person reads them. Otherwise no hints are printed,
    and the webhook is not asked for them.
    """
    return sys.stderr.isatty()


def _hint(reader: RecordReader, within: str | None, *, whole: bool) -> str:
    """Return a line about the gangs that have ended; "" if none has, or if no person reads it.

    :param within: the namespace that was listed; None: all namespaces.
    :param whole: whether the list shows all present gangs as a table; if not, return "".
    """
    if not (whole and at_terminal()):
        return ""
    count = reader.count(within)
    command = f"phalanx gangs {f'-n {within}' if within else '-A'} --all"
    if count is None:
        return f"gangs that have ended: {command}\n"
    gangs = "1 gang" if count == 1 else f"{count} gangs"
    return f"{gangs} ended in the last day: {command}\n" if count else ""


class Listing:
    """Prints gangs as a table, or in the format for programs that was requested."""

    def __init__(self, output: str, *, namespaces: bool) -> None:
        self._output = output
        self._namespaces = namespaces
        self._wide = output == "wide"
        titles = [*(("NAMESPACE",) if namespaces else ()), *_TITLES, *(_WIDE if self._wide else ())]
        self._columns = Columns(titles)

    def show(self, found: Sequence[Manifest], within: str | None, ended: Sequence[Json] | None = None) -> None:
        """Print all gangs. In JSON and YAML, print the Gang objects as the API server lists them.

        :param found: the Gang objects to print.
        :param within: the namespace that was listed; None: all namespaces.
        :param ended: the gangs that have ended, as `/v1/history` returns them; None: do not print them.
        """
        if self._output in FORMATS:
            items = [{"apiVersion": API_VERSION, "kind": "Gang", **each} for each in found]
            data = {"apiVersion": API_VERSION, "kind": "GangList", "items": items}
            data |= {} if ended is None else {"ended": list(ended)}
            click.echo(structured(data, self._output), nl=False)
            return
        where = f"namespace {within}" if within else "this cluster"
        if found:
            self._show_present(found)
        else:
            click.echo(f"no gangs in {where}", err=True)
        if ended:
            titles = [*(("NAMESPACE",) if self._namespaces else ()), *_ENDED, *(_ENDED_WIDE if self._wide else ())]
            click.echo(
                ("\n" if found else "") + lines(table(titles, [self._past_cells(each) for each in ended])), nl=False
            )
        elif ended is not None:
            click.echo(f"no gang has ended in {where} since the webhook started", err=True)

    def _show_present(self, found: Sequence[Manifest]) -> None:
        rows = [self._cells(each, there=True) for each in found]
        self._columns.fit(rows)
        click.echo(lines([self._columns.head(), *map(self._columns.row, rows)]), nl=False)

    def _past_cells(self, gang: Json) -> list[str]:
        """Return the cells of the row for a gang that has ended."""
        now = datetime.now(UTC)
        cells = [
            *((gang["namespace"],) if self._namespaces else ()),
            gang["name"],
            gang["outcome"],
            str(gang["pods"]),
            lasting(gang["waitedSeconds"]),
            gang["waitedFor"][0]["reason"] if gang["waitedFor"] else "",
            lasting(gang["ranSeconds"]) if gang["started"] else "",
            f"{accelerator_hours(gang['hours']):.4g}",
            str(gang["evictions"]),
            str(gang["restarts"]),
            age(gang["finished"], now),
        ]
        if self._wide:
            cells += [gang["submitted"], gang["started"] or "", gang["finished"]]
            cells += [gang["domain"], gang["queue"], gang["dialect"]]
        return cells

    def tell(self, manifest: Manifest, *, there: bool) -> None:
        """Print one gang that has changed, as a row of the table or as a JSON or YAML document.

        :param there: whether the Gang object still exists.
        """
        as_object = {"apiVersion": API_VERSION, "kind": "Gang", **manifest}
        if self._output in FORMATS:
            click.echo(document(as_object, self._output), nl=False)
        else:
            click.echo(lines([self._columns.row(self._cells(manifest, there=there))]), nl=False)

    def _cells(self, manifest: Manifest, *, there: bool) -> list[str]:
        meta, spec = manifest["metadata"], manifest.get("spec") or {}
        status: Mapping[str, Any] = manifest.get("status") or {}
        summary = status.get("summary") or {}
        cells = [
            *((meta["namespace"],) if self._namespaces else ()),
            meta["name"],
            status.get("phase", "New") if there else GONE,
            summary.get("pods", ""),
            summary.get("domain", ""),
            status.get("reason", ""),
            age(meta["creationTimestamp"], datetime.now(UTC)),
        ]
        if self._wide:
            key = mirrored_key(manifest)
            cells += [
                spec.get("required") or "",
                spec.get("preferred") or "",
                key.dialect if key else "phalanx",
                status.get("proof", ""),
                status.get("message", ""),
            ]
        return cells
