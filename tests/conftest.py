"""Shared fixtures: one real control plane per session, and an empty cluster for each test that requests it.

- `control_plane` (session): a running `controlplane.control_plane.ControlPlane`. Pods of priority class `low-priority`
  take `SLOW_SECONDS` to terminate; any pod takes as long as its annotation
  `controlplane.running.stages.TERMINATES_AFTER` says.
- `cluster` (test): the session's control plane, emptied of the nodes, pods, workloads, custom objects, priority classes
  and webhooks of earlier tests. Definitions of kinds stay. A test that creates a namespace gives it a fresh name
  (`emptying.empty`).

Both fixtures offer these methods (`plane` is either fixture):

    plane.add_nodes(manifests)                      create nodes; returns when pods can go there
    plane.create("/api/v1/namespaces/default/pods", manifests)      many objects at once
    plane.apply(manifests)                          server-side apply
    plane.request("GET", path), …                   plain HTTP as the administrator
    plane.kubectl("get", "pods"), .kubectl_result() kubectl as the administrator
    plane.kubeconfig, .kubeconfig_for(namespace, service_account)
    plane.run("webhook", command)                   another program, stopped with the control plane
    plane.program("kube-scheduler").kill() | .stop() | .start() | .freeze() | .thaw(), then plane.await_ready(…)

Events, in the order of the API server, rather than polling (`controlplane.recording`):

    with Recorder(plane) as recorder:               # or Recorder(plane, "/apis/phalanx.dev/v1alpha1/gangs")
        …
        events = recorder.wait_for(lambda seen: …)

Tests that use these fixtures carry `@pytest.mark.controlplane` and run after all others. A test that needs other
options starts its own control plane: `with ControlPlane(Options(…)) as plane`.

`make test` runs two processes of pytest with a control plane each; the tests of a file stay together.
"""

import gc
import os
import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest
import yaml
from emptying import empty
from hypothesis import settings
from thorough import FRESH_SEED, drawn_seed

from controlplane.control_plane import ControlPlane, Options
from controlplane.programs.other_versions import asked_for
from planning import planner
from planning.competing import planned_together

SLOW_SECONDS = 3.0
CONTROL_PLANE = pytest.StashKey[ControlPlane]()
"""The session's control plane, once it runs."""
LONGEST = (
    "test_workload_kinds",
    "test_absent_schedulers",
    "test_crashes",
    "test_crowds_of_gangs",
    "test_install",
    "test_leader_first",
    "test_page_live",
    "test_real_operators",
    "test_restarts_as_a_whole",
    "test_suspended_for_a_queue",
    "test_train_jobs",
    "test_training_operator",
)
"""Files of `tests/system` that take more than a minute.

The first file defines kinds that later files replace by other definitions.
"""


def pytest_configure() -> None:
    """Make SIGTERM end the run as Ctrl-C does, so that the fixtures are torn down, and set up this process."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # The programs of the control plane are in Go, and spend a quarter of their time on keeping their heap small.
    os.environ.setdefault("GOGC", "400")
    os.environ.setdefault("GOMEMLIMIT", "2500MiB")
    # With its C part, which `safe_load` does not use, PyYAML is ten times as fast: a quarter of the time of collecting.
    yaml.SafeLoader = yaml.CSafeLoader  # type: ignore[misc,assignment] # its methods are those of SafeLoader
    # xdist's processes inherit it, and collect the same tests.
    os.environ.setdefault(FRESH_SEED, str(drawn_seed()))
    # An example may take long on a busy machine; pytest-timeout ends what hangs.
    settings.register_profile("no deadline", deadline=None, max_examples=50)
    settings.load_profile("no deadline")


def pytest_report_header() -> str:
    """How to draw this run's random instances again."""
    return f"random instances: {FRESH_SEED}={os.environ[FRESH_SEED]} draws the fresh ones of this run again"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests: fast tests first, tests on a control plane after them, `tests/system` last.

    Tests of `tests/system` run last because they leave a controller running, which would act on the objects of later
    tests. Long files of `tests/system` come before the short files, so that parallel processes finish at about the same
    time. With several processes, each process keeps this order.
    """

    def place(item: pytest.Item) -> tuple[bool, bool, int]:
        system, name = item.path.parent.name == "system", item.path.stem
        long = LONGEST.index(name) if name in LONGEST else len(LONGEST)
        return item.get_closest_marker("controlplane") is not None, system, long if system else 0

    items.sort(key=place)


def pytest_collection() -> None:
    """Disable garbage collection while pytest collects the tests."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exclude all objects that exist now, thousands of tests among them, from garbage collection.

    They live until the end of the run. Scanning them repeatedly took an eighth of the time of the fast tests, and half
    a second of the test during which a scan ran.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def in_no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the wall-clock limits of planning in this process to 600 seconds.

    CP-SAT's deterministic time alone then limits a solve, so that a slow machine proves the same results.
    """
    for module, name in ((planned_together, "LONGEST"), (planned_together, "BOUNDING"), (planner, "COMPARING")):
        monkeypatch.setattr(module, name, replace(getattr(module, name), seconds=600.0))


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """The session's control plane, of the version that the environment asks for (`make test-long`)."""
    with ControlPlane(Options(slow_deletion={"low-priority": SLOW_SECONDS}), asked_for()) as running:
        request.session.stash[CONTROL_PLANE] = running
        yield running


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Freeze the session's control plane during a test that does not use it: idle, it takes a third of a slow core."""
    plane = item.session.stash.get(CONTROL_PLANE, None)
    if plane is None:
        return
    if "control_plane" in getattr(item, "fixturenames", ()):
        plane.thaw()
    else:
        plane.freeze()


@pytest.fixture
def cluster(control_plane: ControlPlane) -> ControlPlane:
    """The session's control plane, emptied of the objects of earlier tests."""
    empty(control_plane)
    return control_plane
