"""Options of what shows the live cluster: how to say it, whether to go on, and which cluster."""

import click

from cli.text.structured import FORMATS

FORMAT = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", *FORMATS]),
    default="table",
    show_default=True,
    help="How to say it; wide: with more columns.",
)
WATCH = click.option("-w", "--watch", is_flag=True, help="Go on and tell what changes, until stopped.")
KUBECONFIG = click.option("--kubeconfig", type=click.Path(exists=True), help="Default: in-cluster, else the usual one.")
