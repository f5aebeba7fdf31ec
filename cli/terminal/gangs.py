"""`phalanx gangs`: one line for every gang of any dialect."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from cli.asking.api_requests import asked, gang_objects, gangs_path, own_namespace
from cli.asking.offered_names import gang_names, namespaces
from cli.asking.progress import waiting
from cli.asking.watching import Source, changes
from cli.options.looking import FORMAT, KUBECONFIG, WATCH
from cli.text.ages import age
from cli.text.columns import Columns, lines
from cli.text.structured import FORMATS, document, structured
from gangs.mirrors import mirrored_key
from gangs.model import Manifest
from kube.keys import API_VERSION
from kube.names import natural_key

GONE = "gone"
"""The text in the column of the phase for a deleted gang."""
_TITLES = ("NAME", "PHASE", "PODS", "DOMAIN", "REASON", "AGE")
_WIDE = ("REQUIRED", "PREFERRED", "DIALECT", "PROOF", "MESSAGE")


@click.command(
    epilog="""\b
Examples:
  phalanx gangs -A
  phalanx gangs -n research -o wide --watch
"""
)
@click.argument("names", metavar="[GANG]...", nargs=-1, shell_complete=gang_names)
@click.option("-n", "--namespace", shell_complete=namespaces, help="Default: the current context's.")
@click.option("-A", "--all-namespaces", is_flag=True, help="The gangs of all namespaces.")
@FORMAT
@WATCH
@KUBECONFIG
def gangs(
    names: Sequence[str],
    *,
    namespace: str | None,
    all_namespaces: bool,
    output: str,
    watch: bool,
    kubeconfig: str | None,
) -> None:
    """List the gangs: how each stands, how many of its pods are bound, in which domain, and why.

    Exit status 1 where a gang that is named is not there.
    """
    transport = asked(kubeconfig)
    within = None if all_namespaces else namespace or own_namespace(kubeconfig)
    with waiting("asking the cluster"):
        found = [each for each in gang_objects(transport, within) if not names or each["metadata"]["name"] in names]
    missing = [name for name in names if name not in {each["metadata"]["name"] for each in found}]
    found.sort(key=lambda each: natural_key(f"{each['metadata']['namespace']}/{each['metadata']['name']}"))
    listing = Listing(output, namespaces=all_namespaces)
    listing.show(found, within)
    for name in missing:
        click.echo(f"Error: no gang {f'{within}/' if within else ''}{name}", err=True)
    if watch:
        for manifest, there in changes(transport, Source(gangs_path(within), found)):
            if not names or manifest["metadata"]["name"] in names:
                listing.tell(manifest, there=there)
    if missing:
        raise SystemExit(1)


class Listing:
    """Prints gangs in the requested output format."""

    def __init__(self, output: str, *, namespaces: bool) -> None:
        self._output = output
        self._namespaces = namespaces
        self._wide = output == "wide"
        titles = [*(("NAMESPACE",) if namespaces else ()), *_TITLES, *(_WIDE if self._wide else ())]
        self._columns = Columns(titles)

    def show(self, found: Sequence[Manifest], within: str | None) -> None:
        """Print all gangs. The formats for programs have the Gang objects as the API server lists them."""
        if self._output in FORMATS:
            items = [{"apiVersion": API_VERSION, "kind": "Gang", **each} for each in found]
            data = {"apiVersion": API_VERSION, "kind": "GangList", "items": items}
            click.echo(structured(data, self._output), nl=False)
            return
        if not found:
            click.echo(f"no gangs in {f'namespace {within}' if within else 'this cluster'}", err=True)
            return
        rows = [self._cells(each, there=True) for each in found]
        self._columns.fit(rows)
        click.echo(lines([self._columns.head(), *map(self._columns.row, rows)]), nl=False)

    def tell(self, manifest: Manifest, *, there: bool) -> None:
        """Print one changed gang, as a line, or as a document in the formats for programs."""
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
