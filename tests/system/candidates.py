"""Controllers beside the one of the installation: several candidates for one Lease."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from system import Phalanx

from controlplane.control_plane import free_ports
from controlplane.running.processes import Program
from kube.keys import CONTROLLER_LEASE, SYSTEM_NAMESPACE

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases/{CONTROLLER_LEASE}"
_COMMAND = [sys.executable, "-c", "from cli.main import main; main()", "controller"]


class Candidate:
    """One more controller, started at once. `lease`: seconds; None: the default."""

    def __init__(
        self, phalanx: Phalanx, identity: str, kubeconfig: Path | None = None, lease: float | None = None
    ) -> None:
        self.identity = identity
        (self._port,) = free_ports(1)
        config = kubeconfig or phalanx.cluster.kubeconfig_for(SYSTEM_NAMESPACE, "phalanx-controller")
        settings = [f"--kubeconfig={config}", f"--identity={identity}", "--metrics-port=0"]
        where = ["--health-address=127.0.0.1", f"--health-port={self._port}"]
        settings += [] if lease is None else [f"--lease-seconds={lease}"]
        settings += [str(each) for each in phalanx.deployment.controller_options]
        environment = {**os.environ, "HOME": str(phalanx.cluster.directory)}
        self.program: Program = phalanx.cluster.run(identity, [*_COMMAND, *settings, *where], environment)

    @property
    def ready(self) -> bool:
        """Whether it could lead."""
        try:
            with urlopen(f"http://127.0.0.1:{self._port}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False


@contextmanager
def candidate(
    phalanx: Phalanx, identity: str, kubeconfig: Path | None = None, lease: float | None = None
) -> Iterator[Program]:
    """Start a controller that is ready to lead; kill it at the end."""
    one = Candidate(phalanx, identity, kubeconfig, lease)
    try:
        phalanx.wait(lambda: one.ready, f"{identity} to be ready")
        yield one.program
    finally:
        print(f"--- {identity}\n{one.program.tail()}")  # noqa: T201 - for the report of a failed test
        one.program.kill()


def leader(phalanx: Phalanx) -> str:
    """Return the identity of the Lease's holder; "" if it has none."""
    spec = phalanx.cluster.request("GET", LEASE).get("spec") or {}
    return str(spec.get("holderIdentity") or "")
