"""`phalanx solve`: the dry run, on files or on the live cluster."""

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec
import yaml

from cli.asking.progress import waiting
from cli.options.what_if import with_what_if
from kube.names import natural_key
from planning.decision import Outcome
from planning.dry_run import DryRun, dry_run
from planning.files.documents import Document, Mistake, parse
from planning.messages.solve_report import solve_report
from planning.solver_pool.pool import shared_workers
from planning.what_if import UnknownNodeError, WhatIf

SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"

PLACED, BAD_INPUT, NOT_PLACED, NOTHING_PLANNED = 0, 2, 3, 4
"""The exit statuses of `phalanx solve`: all gangs placed, wrong input, a gang not placed, no gang in the input."""


@click.command(
    epilog="""\b
Examples:
  phalanx solve -f examples/koordinator
  phalanx solve -f job.yaml --cluster live -o json
  phalanx solve -f manifests/ --cluster live --strict
  phalanx solve --cluster live --gang default/llm --add-nodes 4=node-5
  phalanx solve --cluster live --drain node-5,node-6
  phalanx solve -f examples/koordinator -o html > plan.html
"""
)
@click.option(
    "-f",
    "--filename",
    "sources",
    multiple=True,
    metavar="FILE|DIR|-",
    help="Kubernetes objects in YAML or JSON: a file, every such file of a folder, or standard input.",
)
@click.option(
    "--cluster",
    type=click.Choice(["files", "live"]),
    default="files",
    show_default=True,
    help="The source of nodes and running pods: the files, or the cluster of the current kubeconfig.",
)
@click.option("--kubeconfig", type=click.Path(exists=True), help="For --cluster live. Default: the usual kubeconfig.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml", "html"]),
    default="table",
    show_default=True,
    help="Output format; html: a page with the cluster and the plans, which needs no server.",
)
@click.option("--preemption/--no-preemption", default=True, show_default=True, help="Whether plans may evict pods.")
@with_what_if
@click.option("--strict", is_flag=True, help="Exit with 4 if the input asks for no gang.")
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Print which parts of the input were ignored, and why each plan is better than one in another domain.",
)
def solve(
    sources: Sequence[str],
    cluster: str,
    kubeconfig: str | None,
    output: str,
    *,
    preemption: bool,
    strict: bool,
    verbose: bool,
    what_if: WhatIf,
) -> None:
    """Plan the gangs in files, and print where they fit. No cluster is changed.

    The files describe the cluster (nodes, pods with a node, priority classes, disruption budgets, topologies) and the
    gangs (pods without a node, workloads, groups).

    Exit status: 0 every gang has its minimum placed, 3 a gang has not, 2 bad input or an invalid request. With
    --strict, it is 4 if the input asks for no gang.

    The options --gang, --add-nodes, --cordon, --drain and --relax plan as if the cluster had changed. The cluster
    itself is not changed.
    """
    _check(sources, cluster, what_if)
    shared_workers().start()  # while the files are read
    documents, mistakes = read(sources)
    live = None
    if cluster == "live":
        from cli.live import live_cluster  # noqa: PLC0415 -- the client takes half a second to import

        live = live_cluster(kubeconfig)
    shared_workers().await_started()
    try:
        with waiting("planning"):
            result = dry_run(documents, live=live, preemption=preemption, comparing=verbose, what_if=what_if)
    except UnknownNodeError as error:
        raise click.UsageError(str(error)) from error
    print_result(result, output, details=verbose)
    if not (result.decisions or mistakes or result.mistakes):
        more = "" if verbose else "; -v: what was left out"
        asks = "" if result.warnings else ": the input asks for no gang"
        click.echo(f"nothing to plan{asks}{more}", err=True)
    for note in result.notes if verbose else ():
        click.echo(note, err=True)
    for warning in result.warnings:
        click.echo(f"warning: {warning}", err=True)
    for mistake in (*mistakes, *result.mistakes):
        click.echo(f"error: {mistake}", err=True)
    sys.exit(status([*mistakes, *result.mistakes], result, strict=strict))


def _check(sources: Sequence[str], cluster: str, what_if: WhatIf) -> None:
    """Check that the options name at least one gang or file to plan.

    :raises click.UsageError: they name none, or contradict each other.
    """
    if what_if.gangs and cluster != "live":
        raise click.UsageError("--gang names a gang of the live cluster: add --cluster live")
    if not sources and not (cluster == "live" and (what_if.gangs or what_if.drained)):
        raise click.UsageError("Missing option '-f' / '--filename'.")


def read(sources: Sequence[str]) -> tuple[list[Document], list[Mistake]]:
    """Return the objects in these files, and the mistakes in files and objects that cannot be read.

    :param sources: files, folders, or "-" for standard input.
    """
    documents: list[Document] = []
    mistakes: list[Mistake] = []
    for source in sources:
        for origin, text in _texts(source, mistakes):
            found, wrong = parse(text, origin)
            documents += found
            mistakes += wrong
    return documents, mistakes


def print_result(result: DryRun, output: str, *, details: bool = False) -> None:
    """Print the decisions of the dry run to standard output, in the format `output`.

    :param details: whether JSON and YAML also have the detailed fields of explanations (`solve_report`).
    """
    if output == "table":
        from cli.text.decision_text import render  # noqa: PLC0415 -- other formats need not wait for it

        click.echo(render(result.decisions), nl=False)
        return
    if output == "html":
        click.echo(_page(result), nl=False)
        return
    report = solve_report(result.decisions, details=details)
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(report), indent=2))
    else:
        click.echo(yaml.safe_dump(report, sort_keys=False), nl=False)


def _page(result: DryRun) -> str:
    """Return an HTML page that shows the cluster and the plans.

    :raises click.ClickException: this installation was built without the script of the live page (`make page`).
    """
    from webhook.live_view.page import SCRIPT  # noqa: PLC0415 -- Jinja is slow to import, and only html needs it
    from webhook.live_view.recorded import recorded  # noqa: PLC0415 -- as above

    if not SCRIPT:
        raise click.ClickException("this installation was built without the page's script: make page")
    return recorded(result.decisions, result.snapshot, result.topologies, datetime.now(UTC))


def status(mistakes: Sequence[Mistake], result: DryRun, *, strict: bool = False) -> int:
    """Return the exit status of `phalanx solve` for this result.

    :param mistakes: of the input. Any mistake is a failure.
    :param strict: whether an input without a gang is a failure.
    """
    if mistakes:
        return BAD_INPUT
    if strict and not result.decisions:
        return NOTHING_PLANNED
    placed = all(each.outcome is Outcome.PLACED for each in result.decisions)
    return PLACED if placed else NOT_PLACED


def _texts(source: str, mistakes: list[Mistake]) -> Iterator[tuple[str, bytes]]:
    if source == STDIN:
        yield "stdin", sys.stdin.buffer.read()
        return
    path = Path(source)
    files = [path]
    if path.is_dir():
        files = sorted(
            (each for each in path.iterdir() if each.suffix in SUFFIXES),
            key=lambda each: natural_key(each.name),
        )
        if not files:
            mistakes.append(Mistake(source, f"holds no file that ends in {', '.join(SUFFIXES)}"))
    for each in files:
        try:
            yield str(each), each.read_bytes()
        except OSError as error:
            mistakes.append(Mistake(str(each), f"cannot be read: {error.strerror}"))
