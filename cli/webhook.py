"""`phalanx webhook`: serves admission, dry runs and the live page."""

from pathlib import Path

import click

from cli.options.logs import logging_options

PORT = click.IntRange(0, 65535)
SECONDS = click.FloatRange(min=0, min_open=True)


@click.command(
    epilog="""\b
Example:
  phalanx webhook --cert-dir /certs --log-format json
"""
)
@click.option("--host", default="0.0.0.0", show_default=True, help="Address to listen on.")  # noqa: S104 -- in a pod
@click.option("--port", type=PORT, default=9443, show_default=True, help="HTTPS port.")
@click.option("--health-port", type=PORT, default=8081, show_default=True, help="Plain port of /healthz and /readyz.")
@click.option(
    "--cert-dir",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder of tls.crt and tls.key; they may come later and may change at any time.",
)
@click.option(
    "--certificate-poll-seconds",
    type=SECONDS,
    default=2.0,
    show_default=True,
    help="How often the certificate's files are looked at.",
)
@click.option(
    "--shutdown-notice-seconds",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    help="How long it goes on serving after SIGTERM, not ready any more, so that clients go elsewhere.",
)
@click.option(
    "--most-waiting",
    type=click.IntRange(min=1),
    default=400,
    show_default=True,
    help="Requests that may wait for a thread; more are refused with 429 and asked to come again.",
)
@click.option(
    "--forecast-seconds",
    type=SECONDS,
    default=2.0,
    show_default=True,
    help="The most that `kubectl apply` of a workload waits for its gang's forecast, within the webhook's timeout.",
)
@click.option(
    "--client-ca-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Answer admission only to clients with a certificate of this authority, as an API server can be told to show.",
)
@click.option("--client-name", multiple=True, help="With --client-ca-file: only this common name. May be repeated.")
@click.option(
    "--no-placeholders",
    is_flag=True,
    help="The controller runs with --no-placeholders: say so in what is planned at admission and in dry runs.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False),
    help="How to reach the API server; absent: as the pod's service account, else as your own kubeconfig says.",
)
@logging_options
def webhook(
    *,
    host: str,
    port: int,
    health_port: int,
    cert_dir: Path,
    certificate_poll_seconds: float,
    shutdown_notice_seconds: float,
    most_waiting: int,
    forecast_seconds: float,
    client_ca_file: Path | None,
    client_name: tuple[str, ...],
    no_placeholders: bool,
    kubeconfig: str | None,
) -> None:
    """Run the webhook: it serves admission, dry runs and the live page over HTTPS until stopped."""
    from kubernetes.config import ConfigException  # noqa: PLC0415 -- the client takes long to import

    from cluster.api.connecting import connect  # noqa: PLC0415 -- as above
    from webhook.client_certificates import Certified, anybody  # noqa: PLC0415 -- as above
    from webhook.service import WebhookService  # noqa: PLC0415 -- as above
    from webhook.serving import Settings, WebhookServer  # noqa: PLC0415 -- as above

    if client_name and client_ca_file is None:
        raise click.UsageError("--client-name needs --client-ca-file, by which certificates are believed")
    try:
        transport = connect(kubeconfig)
    except ConfigException as error:
        raise click.ClickException(f"no cluster to serve (--kubeconfig): {error}") from error
    settings = Settings(
        certificates=cert_dir,
        host=host,
        port=port,
        health_port=health_port,
        notice=shutdown_notice_seconds,
        most_waiting=most_waiting,
        certificate_poll=certificate_poll_seconds,
        client_authority=client_ca_file,
    )
    caller = Certified(client_name) if client_ca_file is not None else anybody

    def service() -> WebhookService:
        return WebhookService(transport, caller, placeholders=not no_placeholders, longest_forecast=forecast_seconds)

    WebhookServer(settings, service).run()
