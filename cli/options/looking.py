"""Options of the commands that show the live cluster: output format, watch, and kubeconfig."""

import click

from cli.text.structured import FORMATS

FORMAT = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", *FORMATS]),
    default="table",
    show_default=True,
    help="Output format; wide: a table with more columns.",
)
SERVICE_ACCOUNT = click.option(
    "--service-account",
    metavar="NAMESPACE/NAME",
    help="Send this service account's token to the webhook. Needed if your kubeconfig authenticates by certificate.",
)
WATCH = click.option("-w", "--watch", is_flag=True, help="Print changes, too, until you stop the command.")
KUBECONFIG = click.option(
    "--kubeconfig", type=click.Path(exists=True), help="Default: in-cluster, else the usual kubeconfig."
)
SERVER = click.option(
    "--server",
    metavar="URL",
    help="URL of the webhook. Default: that of its webhook configuration; if none, kubectl forwards a port to it.",
)
WATCH = click.option("-w", "--watch", is_flag=True, help="Go on and tell what changes, until stopped.")
KUBECONFIG = click.option("--kubeconfig", type=click.Path(exists=True), help="Default: in-cluster, else the usual one.")
