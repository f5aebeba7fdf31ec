"""Shell completion of the names of gangs, nodes and so on, from the live cluster.

If the cluster does not answer at once, no names are offered. click finds out which argument is completed, and calls the
functions of this module with the incomplete word (`click.shell_completion`).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from cluster.api.transport import Transport

PATIENCE = (1.0, 2.0)
"""Timeouts in seconds, to connect and between bytes. They are short because the user has pressed a key and waits."""

Items = list[CompletionItem]


def gang_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> Items:
    """Return the names of gangs that complete the word: of all namespaces with `--all-namespaces`.

    Without it, gangs of `--namespace` are offered, else of the namespace of the kubeconfig's context.
    """
    return _offered(_gangs(ctx, within=_namespace(ctx)), incomplete)


def qualified_gangs(ctx: click.Context, _param: click.Parameter, incomplete: str) -> Items:
    """Return the names of gangs, as NAMESPACE/GANG, that complete the word.

    If the user may not list the gangs of all namespaces, only gangs of a namespace that is already typed are offered.
    """
    namespace, slash, _ = incomplete.partition("/")
    found = _gangs(ctx, within=None) or (_gangs(ctx, within=namespace) if slash else [])
    return _offered([(f"{each[2]}/{each[0]}", each[1], each[2]) for each in found], incomplete)


def namespaces(ctx: click.Context, _param: click.Parameter, incomplete: str) -> Items:
    """Return the names of namespaces that complete the word."""
    return _offered([(name, "", "") for name in _names(ctx, "/api/v1/namespaces")], incomplete)


def nodes(ctx: click.Context, _param: click.Parameter, incomplete: str) -> Items:
    """Return the names of nodes that complete the word. In a list with commas, the last name is completed."""
    before, comma, last = incomplete.rpartition(",")
    return [
        CompletionItem(f"{before}{comma}{each.value}")
        for each in _offered([(name, "", "") for name in _names(ctx, "/api/v1/nodes")], last)
    ]


def levels(ctx: click.Context, _param: click.Parameter, incomplete: str) -> Items:
    """Return the names of levels of Phalanx's Topology objects that complete the word."""
    items = _asked(ctx, "/apis/phalanx.dev/v1alpha1/topologies")
    names = dict.fromkeys(level["name"] for each in items for level in each["spec"]["levels"])
    return _offered([(name, "", "") for name in names], incomplete)


def _offered(names: Iterable[tuple[str, str, str]], incomplete: str) -> Items:
    return [CompletionItem(name, help=note or None) for name, note, _ in names if name.startswith(incomplete)]


def _gangs(ctx: click.Context, within: str | None) -> list[tuple[str, str, str]]:
    """Return name, phase and namespace of the gangs in a namespace; None: in all namespaces."""
    place = f"namespaces/{within}/" if within else ""
    items = _asked(ctx, f"/apis/phalanx.dev/v1alpha1/{place}gangs")
    return [
        (each["metadata"]["name"], (each.get("status") or {}).get("phase", ""), each["metadata"]["namespace"])
        for each in items
    ]


def _names(ctx: click.Context, path: str) -> list[str]:
    return [each["metadata"]["name"] for each in _asked(ctx, path)]


def _asked(ctx: click.Context, path: str) -> list[dict[str, Any]]:
    """Return the objects at an API path; empty on any error, because an error would disturb the user who is typing."""
    try:
        answer = _transport(ctx).request("GET", path, query={"limit": 500}, timeout=PATIENCE)
    except Exception:  # noqa: BLE001 -- whatever it is, there is nothing to offer
        return []
    items: list[dict[str, Any]] = answer["items"]
    return items


def _transport(ctx: click.Context) -> "Transport":
    from cluster.api.connecting import connect  # noqa: PLC0415 -- takes half a second, and most words need no cluster

    return connect(ctx.params.get("kubeconfig"))


def _namespace(ctx: click.Context) -> str | None:
    from cluster.api.connecting import namespace_of  # noqa: PLC0415 -- as above

    if ctx.params.get("all_namespaces"):
        return None
    try:
        return ctx.params.get("namespace") or namespace_of(ctx.params.get("kubeconfig"))
    except Exception:  # noqa: BLE001 -- as above
        return None
