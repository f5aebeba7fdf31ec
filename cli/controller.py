"""`phalanx controller`: the server that plans gangs and carries out their plans."""

import atexit
import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import click

from cli.options.certificates import certificate_options
from cli.options.logs import logging_options
from controller import defaults
from kube.versions import version_of

if TYPE_CHECKING:
    from controller.telemetry.tracing import Traces

PORT = click.IntRange(0, 65535)
SECONDS = click.FloatRange(min=0, min_open=True)


def _minor_version(_context: click.Context, _option: click.Parameter, value: str) -> str:
    """Return the value of --scheduler-version if it is empty or a version."""
    if value and version_of(value) is None:
        raise click.BadParameter(f"{value!r} is no version of Kubernetes, such as 1.36")
    return value


@click.command(
    epilog="""\b
Example:
  phalanx controller --log-format json
"""
)
@click.option("--kubeconfig", type=click.Path(exists=True), help="Default: in-cluster, else the usual kubeconfig.")
@click.option("--identity", default=lambda: f"{socket.gethostname()}-{os.getpid()}", help="Name in the Lease.")
@click.option(
    "--health-address",
    default="0.0.0.0",  # noqa: S104 - kubelets and scrapers connect from outside the pod
    show_default=True,
    help="Address of the ports of /healthz, /readyz and /metrics.",
)
@click.option(
    "--health-port", type=PORT, default=8081, show_default=True, help="Plain HTTP port of /healthz and /readyz."
)
@click.option("--metrics-port", type=PORT, default=8443, show_default=True, help="HTTPS port of /metrics.")
@click.option(
    "--solve-seconds",
    type=SECONDS,
    default=defaults.SOLVE_SECONDS,
    show_default=True,
    help="Time limit of one solve.",
)
@click.option(
    "--lease-seconds",
    type=SECONDS,
    default=defaults.LEASE_SECONDS,
    show_default=True,
    help="How long a leader that does not renew the Lease keeps it.",
)
@click.option(
    "--partly-seconds",
    type=SECONDS,
    help="How long a gang that cannot become whole may run in part.  [default: a second more than the Lease]",
)
@click.option(
    "--restart-seconds",
    type=SECONDS,
    default=defaults.RESTART_SECONDS,
    show_default=True,
    help="How long a lost member must have had no plan before its gang is restarted (onFailure: Restart).",
)
@click.option(
    "--topology-seconds",
    type=SECONDS,
    default=30.0,
    show_default=True,
    help="Least time between two writes of the free capacity in the statuses of topologies.",
)
@click.option(
    "--untried-seconds",
    type=SECONDS,
    default=defaults.UNTRIED_SECONDS,
    show_default=True,
    help="How long a scheduler may take over a member that was released.",
)
@click.option(
    "--writes",
    type=click.IntRange(1, 64),
    default=defaults.WRITES,
    show_default=True,
    help="The most concurrent write requests to the API server.",
)
@click.option(
    "--no-placeholders",
    is_flag=True,
    help="Reserve no capacity for pods that their workload creates only when others of it run: "
    "such a gang waits for all its pods.",
)
@click.option(
    "--scheduler-version",
    default="",
    metavar="MAJOR.MINOR",
    callback=_minor_version,
    help="Version of the stock scheduler, such as 1.36. Before 1.37, placeholders reserve the capacity of planned "
    "gangs.  [default: read from the API server and from the scheduler's pods]",
)
@click.option(
    "--traces", is_flag=True, help="Send a trace of each gang by OpenTelemetry, to OTEL_EXPORTER_OTLP_ENDPOINT."
)
@logging_options
@certificate_options
def controller(
    *,
    kubeconfig: str | None,
    identity: str,
    health_address: str,
    health_port: int,
    metrics_port: int,
    solve_seconds: float,
    lease_seconds: float,
    partly_seconds: float | None,
    restart_seconds: float,
    topology_seconds: float,
    untried_seconds: float,
    writes: int,
    no_placeholders: bool,
    scheduler_version: str,
    traces: bool,
    keeping: Any,
) -> None:
    """Run the controller: it plans gangs, reserves their capacity and releases them. If you run several, one leads."""
    from kubernetes.config import ConfigException  # noqa: PLC0415 - ortools and kubernetes take half a second

    from controller.serving import Server, Settings  # noqa: PLC0415 - as above
    from webhook.health import health_server  # noqa: PLC0415 - as above

    stop = _told_to_stop()
    try:
        observers = _traces() if traces else ()
        server = Server(
            Settings(
                kubeconfig,
                identity,
                solve_seconds,
                lease_seconds,
                lease_seconds + 1.0 if partly_seconds is None else partly_seconds,
                keeping,
                topology_seconds=topology_seconds,
                untried_seconds=untried_seconds,
                restart_seconds=restart_seconds,
                writes=writes,
                placeholders=not no_placeholders,
                scheduler_version=scheduler_version,
                observers=observers,
            )
        )
    except ConfigException as error:
        raise click.ClickException(f"no cluster to control (--kubeconfig): {error}") from error
    with (
        _listening("health", health_address, health_port, partial(health_server, checks={"caches": server.unready})),
        _listening("metrics", health_address, metrics_port, server.metrics_server),
    ):
        server.run(stop)


def _told_to_stop() -> threading.Event:
    """Return an event that is set when the process gets SIGTERM or SIGINT."""
    stop = threading.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: stop.set())
    return stop


def _traces() -> "tuple[Traces, ...]":
    try:
        from controller.telemetry.tracing import traces  # noqa: PLC0415 - an extra that may not be installed
    except ImportError as error:
        raise click.ClickException(f"--traces needs the extra phalanx[tracing]: {error}") from error
    traces_to = traces()
    atexit.register(traces_to.close)
    return (traces_to,)


class Listener(Protocol):
    """A server of one port that runs in the background."""

    def start(self) -> None:
        """Start to serve."""

    def stop(self) -> None:
        """Stop serving and close the port."""


@contextlib.contextmanager
def _listening(name: str, host: str, port: int, make: Callable[[str, int], Listener]) -> Iterator[None]:
    try:
        listener = make(host, port)
    except OSError as error:
        where = f"--health-address={host} --{name}-port={port}"
        raise click.ClickException(f"cannot listen at {where}: {error}") from error
    listener.start()
    try:
        yield
    finally:
        listener.stop()
