"""Phalanx itself on the session's control plane: installed from the manifests, both servers running.

- `phalanx`: a clean cluster with the webhook registered and a controller leading; see `system.Phalanx`.
"""

from collections.abc import Iterator

import pytest
from system import Phalanx

from cli.installation.local import Deployment
from controlplane.control_plane import ControlPlane


@pytest.fixture(scope="session")
def deployment(control_plane: ControlPlane) -> Deployment:
    """The session's installation; its webhook runs from here on."""
    made = Deployment(control_plane)
    made.install()
    made.start_webhook()
    made.start_controller()
    return made


@pytest.fixture
def phalanx(deployment: Deployment, cluster: ControlPlane) -> Iterator[Phalanx]:
    """Phalanx on a clean cluster."""
    running = Phalanx(deployment, cluster)
    running.ensure_servers()
    deployment.register_webhook()
    yield running
    running.show_logs()
