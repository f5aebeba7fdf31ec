"""Forwards a local port to the webhook by `kubectl port-forward`, for as long as a command runs."""

import re
import shutil
import subprocess
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import click

from certs.cluster_edge import DEFAULT_PLACE

ARGUMENTS = ("-n", DEFAULT_PLACE.namespace, "port-forward", f"service/{DEFAULT_PLACE.service}")
COMMAND = f"kubectl {' '.join(ARGUMENTS)} 9443:443"
"""The command with which a user can forward the port, for messages."""
_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ")


@contextmanager
def port_forward(kubeconfig: str | None) -> Iterator[str]:
    """Forward a free local port to the webhook's Service during the `with` block. Yield the URL of the local port.

    :raises click.ClickException: there is no kubectl, or it cannot forward the port. The message quotes kubectl.
    """
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise click.ClickException(f"kubectl is not on PATH: run `{COMMAND}`, then `phalanx ui --server …`")
    config = ["--kubeconfig", kubeconfig] if kubeconfig else []
    command = [kubectl, *config, *ARGUMENTS, ":443", "--address=127.0.0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        output = process.stdout or ()
        try:
            port = _port(output)
            # kubectl prints a line for each connection, and stops forwarding when the pipe is full.
            threading.Thread(target=deque, args=(output, 0), name="kubectl", daemon=True).start()
            yield f"https://127.0.0.1:{port}"
        finally:
            process.terminate()


def _port(output: Iterable[str]) -> str:
    """Return the number of the local port on which kubectl listens, from the lines that it prints.

    :param output: the lines that kubectl prints. :raises click.ClickException: kubectl ended without listening.
    """
    lines = list[str]()
    for line in output:
        if found := _FORWARDING.search(line):
            return found.group(1)
        lines.append(line)
    raise click.ClickException(f"the webhook's port cannot be forwarded: {''.join(lines).strip()}")
