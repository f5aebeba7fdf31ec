"""How the controller finds the version of the scheduler, and what it does while it does not know it."""

import threading
from typing import Any

import pytest
from click.testing import CliRunner
from kubernetes.client.exceptions import ApiException

from cli.controller import controller
from cluster.api.transport import Transport
from controller.versions import SchedulerVersion
from kube.versions import SCHEDULER_PODS, Version


class ApiServer(Transport):
    """An API server that shows its version and the images of the scheduler's pods; "" for a version: it fails."""

    def __init__(self, version: str, *images: str) -> None:
        self.version, self.images = version, images

    def request(self, method: str, path: str, **_: Any) -> Any:
        """Answer a request."""
        if not self.version:
            raise ApiException(status=503, reason="not now")
        if path == "/version":
            return {"gitVersion": self.version}
        assert (method, path) == ("GET", SCHEDULER_PODS)
        return {"items": [{"spec": {"containers": [{"image": each}]}} for each in self.images]}


@pytest.mark.parametrize(
    ("server", "forgets"),
    [
        (ApiServer("v1.37.1"), False),
        (ApiServer("v1.36.3"), True),
        (ApiServer("v1.37.1", "registry.k8s.io/kube-scheduler:v1.37.1"), False),
        (ApiServer("v1.37.1", "registry.k8s.io/kube-scheduler:v1.36.3"), True),
        (ApiServer(""), True),
    ],
    ids=["new", "old", "all new", "an older scheduler", "not known"],
)
def test_placeholders_hold_where_the_scheduler_may_forget(server: ApiServer, *, forgets: bool) -> None:
    found = SchedulerVersion(server)
    assert found.forgets  # before the first read
    found.read()
    assert found.forgets == forgets


def test_the_last_known_version_stays_while_the_api_server_does_not_answer_and_an_upgrade_is_seen() -> None:
    server = ApiServer("v1.36.3")
    found = SchedulerVersion(server)
    found.read()
    server.version = ""
    found.read()
    assert found.wait(0.0) == Version(1, 36)
    server.version = "v1.37.1"
    found.read()
    assert not found.forgets


def test_the_version_is_read_in_a_thread_until_the_process_stops() -> None:
    found, stop = SchedulerVersion(ApiServer("v1.37.1")), threading.Event()
    found.start(stop)
    assert found.wait(60.0) == Version(1, 37)
    stop.set()


def test_a_version_that_the_user_names_is_never_read() -> None:
    found, stop = SchedulerVersion(ApiServer(""), "1.36"), threading.Event()
    found.start(stop)
    assert found.wait(0.0) == Version(1, 36)
    assert found.forgets
    assert not SchedulerVersion(ApiServer(""), "1.37").forgets


def test_an_option_that_is_no_version_is_refused() -> None:
    answer = CliRunner().invoke(controller, ["--scheduler-version", "newest"])
    assert answer.exit_code == 2
    assert "'newest' is no version of Kubernetes, such as 1.36" in answer.output
