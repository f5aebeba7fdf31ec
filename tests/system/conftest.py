"""Phalanx itself on the session's control plane: installed from the manifests, both servers running.

- `phalanx`: a clean cluster with the webhook registered and a controller leading; see `system.Phalanx`.
- `jobset`, `lws`, `kuberay`, `training_operator`: another project's operator, for a file of tests. Its webhooks are
  registered by each test, since a clean cluster has none.
"""

from collections.abc import Callable, Iterator

import pytest
from emptying import empty
from registration import NAMES, Registration
from system import Phalanx

from cli.installation.local import Deployment
from controlplane.control_plane import ControlPlane
from controlplane.operator_processes import Running, running


@pytest.fixture(scope="session")
def deployment(control_plane: ControlPlane) -> Deployment:
    """The session's installation; its webhook runs from here on. Controllers are killed here, and then waited for."""
    made = Deployment(control_plane, lease_seconds=2)
    made.install()
    made.start_webhook()
    made.start_controller()
    return made


@pytest.fixture
def controller_options() -> tuple[object, ...]:
    """With what the controller is started; a file of tests may say it otherwise."""
    return ()


@pytest.fixture(scope="session")
def registration(deployment: Deployment, control_plane: ControlPlane) -> Registration:
    """What the API server was told of the deployment's webhook."""
    return Registration(deployment, control_plane)


@pytest.fixture
def phalanx(
    deployment: Deployment,
    control_plane: ControlPlane,
    registration: Registration,
    controller_options: tuple[object, ...],
) -> Iterator[Phalanx]:
    """Phalanx on a clean cluster."""
    empty(control_plane, kept=NAMES if registration.holds else ())
    running = Phalanx(deployment, control_plane)
    running.ensure_servers(*controller_options)
    registration.renew()
    yield running
    running.show_logs()


def _operator(name: str) -> Callable[[ControlPlane], Iterator[Running]]:
    @pytest.fixture(scope="module", name=name.replace("-", "_"))
    def found(control_plane: ControlPlane) -> Iterator[Running]:
        with running(control_plane, name) as operator:
            yield operator

    return found


jobset, lws, kuberay, training_operator = map(_operator, ("jobset", "lws", "kuberay", "training-operator"))
