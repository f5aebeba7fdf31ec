"""`phalanx events NAMESPACE/GANG`: the history of a gang since its creation."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import click
from rich.text import Text

from cli.asking.api_requests import asked, split, told_in_a_line
from cli.asking.offered_names import qualified_gangs
from cli.asking.progress import waiting
from cli.asking.watching import Source, changes
from cli.ended_gangs import NoSuchGangError, RecordReader
from cli.options.looking import FORMAT, KUBECONFIG, SERVER, SERVICE_ACCOUNT, WATCH
from cli.text.ages import since
from cli.text.columns import Columns, lines
from cli.text.ended_text import steps_text
from cli.text.structured import FORMATS, document, structured
from cli.why import Reader
from cluster.api.transport import Transport
from gangs.model import Manifest
from kube.keys import API_VERSION
from kube.objects import Pod
from planning.stories.history import POD_WARNINGS, events_path, history, warnings
from planning.stories.timeline import Step, folded, moment_of, step_of, story

_TITLES = ("AFTER", "WHAT", "NOTE")
_WIDE = ("TIME", "AFTER", "WHAT", "OBJECT", "NOTE")


@click.command(
    epilog="""\b
Examples:
  phalanx events default/llm
  phalanx events default/llm --watch
"""
)
@click.argument("gang", metavar="NAMESPACE/GANG", shell_complete=qualified_gangs)
@FORMAT
@WATCH
@KUBECONFIG
@SERVICE_ACCOUNT
@SERVER
def events(
    gang: str, *, output: str, watch: bool, kubeconfig: str | None, service_account: str | None, server: str | None
) -> None:
    """Print the history of a gang: when it was created, planned, released and bound, and the pods evicted for it.

    The history includes the gang's own evictions, and warnings on its pods and on their owners. For a gang that has
    ended, the command prints the webhook's record, with -o json and -o yaml as an object of kind EndedGang. You need
    the ClusterRole phalanx-viewer for the record.

    Exit status 1: the gang does not exist.
    """
    namespace, name = split(gang)
    transport = asked(kubeconfig)
    try:
        with told_in_a_line(), waiting("reading what has happened"):
            reader = Reader(transport)
            manifest = reader.gang(namespace, name)
            members = reader.members(manifest)
            happened = [*history(transport, manifest, members), *warnings(transport, members)]
    except NoSuchGangError as absence:
        last = RecordReader(kubeconfig, service_account, server).named(namespace, name, absence)[0]
        as_object = {"apiVersion": API_VERSION, "kind": "EndedGang", **last}
        in_steps = output not in FORMATS
        click.echo(steps_text(last, datetime.now(UTC)) if in_steps else structured(as_object, output), nl=False)
        return
    happened.sort(key=moment_of)
    printer = EventPrinter(manifest, output)
    printer.show(happened)
    if watch:
        follow(transport, printer, manifest, members, happened)


def follow(
    transport: Transport,
    printer: "EventPrinter",
    manifest: Manifest,
    members: Sequence[Pod],
    happened: Sequence[Manifest],
) -> None:
    """Print new events of the gang, and new warnings on its current pods, until Ctrl-C."""
    meta = manifest["metadata"]
    uids = {each.metadata.uid for each in members}

    def of_a_member(event: Manifest) -> bool:
        return event["involvedObject"].get("uid") in uids

    sources = [Source(events_path(meta["namespace"]), happened, f"involvedObject.uid={meta['uid']}")]
    sources += [
        Source(events_path(namespace), happened, POD_WARNINGS, of_a_member)
        for namespace in sorted({each.metadata.namespace for each in members})
    ]
    for event, there in changes(transport, *sources):
        if there:
            printer.tell(event)


class EventPrinter:
    """Prints the history of a gang: its steps as a table, or its events as JSON or YAML."""

    def __init__(self, gang: Manifest, output: str) -> None:
        self._gang = gang
        self._output = output
        self._columns = Columns(_WIDE if output == "wide" else _TITLES, indent="  ")
        self._start: datetime | None = None

    def show(self, happened: Sequence[Manifest]) -> None:
        """Print the history of the gang so far. In JSON and YAML, print the Event objects as the API server has
        them.
        """
        if self._output in FORMATS:
            items = [{"apiVersion": "v1", "kind": "Event", **each} for each in happened]
            click.echo(structured({"apiVersion": "v1", "kind": "EventList", "items": items}, self._output), nl=False)
            return
        steps = story(self._gang, happened)
        self._start = steps[0].at
        if self._output != "wide":
            notes = folded(each.note for each in steps)
            steps = [replace(each, note=note) for each, note in zip(steps, notes, strict=True)]
        rows = [self._cells(each) for each in steps]
        self._columns.fit(rows)
        styled = [_styled(self._columns.row(row), step) for row, step in zip(rows, steps, strict=True)]
        click.echo(lines([_headline(self._gang), Text(), self._columns.head(), *styled]), nl=False)

    def tell(self, event: Manifest) -> None:
        """Print one new event of the gang, as a row of the table or as a JSON or YAML document."""
        as_object: dict[str, Any] = {"apiVersion": "v1", "kind": "Event", **event}
        if self._output in FORMATS:
            click.echo(document(as_object, self._output), nl=False)
        elif (step := step_of(event)) is not None:
            click.echo(lines([_styled(self._columns.row(self._cells(step)), step)]), nl=False)

    def _cells(self, step: Step) -> list[str]:
        after = since(self._start or step.at, step.at)
        note = f"{step.note} (x{step.times})" if step.times > 1 else step.note
        if self._output == "wide":
            return [step.at.strftime("%Y-%m-%dT%H:%M:%SZ"), after, step.what, step.of, note]
        return [after, step.what, f"{step.of}: {note}" if step.of else note]


def _headline(gang: Manifest) -> Text:
    meta, status = gang["metadata"], gang.get("status") or {}
    words = [f"{meta['namespace']}/{meta['name']}", status.get("phase", "New"), status.get("message", "")]
    return Text("  ".join(each for each in words if each), style="bold")


def _styled(line: Text, step: Step) -> Text:
    if step.warning:
        line.stylize("red")
    return line
