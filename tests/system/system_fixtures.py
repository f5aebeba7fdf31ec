"""Phalanx itself on the session's control plane: installed from the manifests, both servers running.

- `phalanx`: a clean cluster with the webhook registered and a controller leading; see `system.Phalanx`.
- `observed` (every test): fails a test that breaks an invariant of `observer.Invariant`, unless the marker `allows`
  names the invariant.
- `jobset`, `lws`, `kuberay`, `training_operator`: another project's operator, for a file of tests. Its webhooks are
  registered by each test, since a clean cluster has none.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from emptying import empty
from observer import forced_by_kubectl, forced_by_request, violations
from registration import NAMES, Registration
from system import Phalanx

from controlplane.control_plane import ControlPlane
from controlplane.deployment import Deployment
from controlplane.operator_processes import Running, running
from controlplane.programs.other_versions import scheduler_asked_for
from controlplane.recording import Recorder

OBSERVED = ("/api/v1/nodes", "/apis/phalanx.dev/v1alpha1/gangs", "/api/v1/pods")
"""The paths that the observer records. The pods come last, so that no pod is recorded without its node."""
PARTLY_SECONDS = 60.0
"""How long a gang may be bound in part: ten times the promise, because a machine that is busy may take so long. The
simulation checks the promise itself, in logical time, and `test_killed_releases.py` does on an idle machine.
"""
LEASE_SECONDS = 10.0
"""The lease of the tests: a leader on a busy machine renews it in time, and a killed leader is soon replaced."""
TIMEOUT_SECONDS = 30
"""The timeout of each call of the webhook. A forecast may take all but 5 s, so that a slow machine can prove it."""


@pytest.fixture(scope="session")
def deployment(control_plane: ControlPlane) -> Deployment:
    """The session's installation; its webhook runs from here on. Controllers are killed here, and then waited for."""
    made = Deployment(
        control_plane,
        LEASE_SECONDS,
        timeout_seconds=TIMEOUT_SECONDS,
        webhook_options=("--forecast-seconds", TIMEOUT_SECONDS - 5),
        controller_options=older_scheduler(),
    )
    made.install()
    made.start_webhook()
    made.start_controller()
    return made


def older_scheduler() -> tuple[object, ...]:
    """Return the controller's options that name a scheduler older than the API server: no object in the cluster shows
    its version.
    """
    older = scheduler_asked_for()
    return ("--scheduler-version", older) if older else ()


@pytest.fixture
def controller_options() -> tuple[object, ...]:
    """Command-line options of the controller; a file of tests may override them."""
    return ()


@pytest.fixture(scope="session")
def registration(deployment: Deployment, control_plane: ControlPlane) -> Registration:
    """The webhook configurations of the session's deployment at the API server."""
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
    running = Phalanx(control_plane, deployment)
    running.ensure_servers(*controller_options)
    registration.renew()
    yield running
    running.show_logs()


@pytest.fixture(autouse=True)
def observed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Record pods, nodes and Gangs beside the test, on the clean cluster that it gets, and judge them at its end."""
    fixtures = [each for each in ("deployment", "phalanx", "cluster") if each in request.fixturenames]
    found = {each: request.getfixturevalue(each) for each in fixtures}
    plane = found["phalanx"].cluster if "phalanx" in found else found.get("cluster")
    if plane is None:
        yield
        return
    forced = set[str]()
    kubectl, ask = plane.kubectl_result, plane.request

    def kubectl_result(*arguments: str, **options: Any) -> Any:
        forced.update(forced_by_kubectl(arguments))
        return kubectl(*arguments, **options)

    def request_(method: str, path: str, body: object = None, *others: Any, **options: Any) -> Any:
        forced.update(forced_by_request(method, path, body))
        return ask(method, path, body, *others, **options)

    monkeypatch.setattr(plane, "kubectl_result", kubectl_result)
    monkeypatch.setattr(plane, "request", request_)
    with ExitStack() as stack:
        recorders = [stack.enter_context(Recorder(plane, path)) for path in OBSERVED]
        yield
        complete, now = not any(each.ended for each in recorders), time.monotonic()
    events = [event for recorder in recorders for event in recorder.events]
    # A watch ends with its API server: a gang may have become whole after the last event.
    until = now if complete else max((each.at for each in events), default=now)
    allowed = {mark.args[0] for mark in request.node.iter_markers("allows")}
    broken = violations(events, PARTLY_SECONDS, until, forced)
    forbidden = [str(violation) for violation in broken if violation.invariant.name not in allowed]
    assert not forbidden, forbidden  # pytest explains no assertion of a module that a conftest imports


def _operator(name: str) -> Callable[[ControlPlane], Iterator[Running]]:
    @pytest.fixture(scope="module", name=name.replace("-", "_"))
    def found(control_plane: ControlPlane) -> Iterator[Running]:
        with running(control_plane, name) as operator:
            yield operator

    return found


jobset, lws, kuberay, training_operator = map(_operator, ("jobset", "lws", "kuberay", "training-operator"))
