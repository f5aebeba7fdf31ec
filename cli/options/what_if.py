"""The options of `phalanx solve` that change the cluster's nodes, or the gangs' constraints, for one dry run."""

import re
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import click

from cli.asking.offered_names import levels, nodes, qualified_gangs
from planning.what_if import WhatIf, added_nodes, names

Command = Callable[..., Any]


def _added(_ctx: click.Context, _param: click.Parameter, values: Sequence[str]) -> dict[str, int]:
    try:
        return added_nodes(values)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _names(_ctx: click.Context, _param: click.Parameter, values: Sequence[str]) -> frozenset[str]:
    return names(values)


_OPTIONS = (
    click.option(
        "--gang",
        "gangs",
        multiple=True,
        metavar="NAMESPACE/GANG",
        shell_complete=qualified_gangs,
        help="What if: a gang of the live cluster that waits is planned, too.",
    ),
    click.option(
        "--add-nodes",
        "added",
        multiple=True,
        metavar="COUNT=NODE",
        callback=_added,
        help="What if: there were so many more nodes like this one, empty.",
    ),
    click.option(
        "--cordon",
        "cordoned",
        multiple=True,
        metavar="NODE,...",
        callback=_names,
        shell_complete=nodes,
        help="What if: nobody new went to these nodes.",
    ),
    click.option(
        "--drain",
        "drained",
        multiple=True,
        metavar="NODE,...",
        callback=_names,
        shell_complete=nodes,
        help="What if: these nodes were drained, too; gangs that lose members are planned, other pods are gone.",
    ),
    click.option(
        "--relax",
        "relaxed",
        multiple=True,
        metavar="LEVEL",
        shell_complete=levels,
        help="What if: this level were preferred where it is required.",
    ),
)


def with_what_if(command: Command) -> Command:
    """Decorate a command with the what-if options. The command gets their values as one argument, `what_if`."""

    @wraps(command)
    def run(
        gangs: Sequence[str],
        added: dict[str, int],
        cordoned: frozenset[str],
        drained: frozenset[str],
        relaxed: Sequence[str],
        **rest: Any,
    ) -> Any:
        for name in gangs:
            if not re.fullmatch("[^/]+/[^/]+", name):
                raise click.BadParameter(f"{name}: write it as NAMESPACE/GANG", param_hint="--gang")
        return command(what_if=WhatIf(added, cordoned, drained, tuple(relaxed), frozenset(gangs)), **rest)

    for option in reversed(_OPTIONS):
        run = option(run)
    return run
