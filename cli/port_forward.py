"""A local port of the webhook, by `kubectl port-forward`, for as long as a command runs."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import click

from certs.cluster_edge import DEFAULT_PLACE

ARGUMENTS = ("-n", DEFAULT_PLACE.namespace, "port-forward", f"service/{DEFAULT_PLACE.service}")
COMMAND = f"kubectl {' '.join(ARGUMENTS)} 9443:443"
"""What a person types, if there is no kubectl here."""
_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ")


@contextmanager
def port_forward(kubeconfig: str | None) -> Iterator[str]:
    """Forward a free local port to the webhook's Service meanwhile. Yield the URL of the local port.

    :raises click.ClickException: there is no kubectl, or it cannot forward. The text has the reason that kubectl gives.
    """
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise click.ClickException(f"kubectl is not on PATH: run `{COMMAND}`, then `phalanx ui --server …`")
    config = ["--kubeconfig", kubeconfig] if kubeconfig else []
    command = [kubectl, *config, *ARGUMENTS, ":443", "--address=127.0.0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield f"https://127.0.0.1:{_port(process)}"
        finally:
            process.terminate()


def _port(process: subprocess.Popen[str]) -> str:
    """Return the local port, which kubectl prints when it listens there."""
    if process.stdout is None or process.stderr is None:
        raise RuntimeError("kubectl was started without pipes")
    found = _FORWARDING.search(process.stdout.readline())
    if found is None:
        reason = process.stderr.read().strip()
        raise click.ClickException(f"the webhook's port cannot be forwarded: {reason}")
    return found.group(1)
