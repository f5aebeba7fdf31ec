"""The webhook as the API server calls it through its Service.

- `plane`: the session's control plane with the manifests applied, and the certificate's Secret mounted at `mount`.
- `replica`: one webhook that is ready, trusted and called.

Each fixture lasts for one file of tests. This folder is no package, so a fixture of package scope would last for the
whole session. The mount would then poll, and the webhook would watch the cluster, during all system tests.
"""

from collections.abc import Iterator

import pytest
from replica import PATIENCE, Mount, Replica, certify, gated, installed, lead_the_service_to

from controlplane.control_plane import ControlPlane, wait_until


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """With a certificate that the controller's own code has made, as its service account."""
    with installed(control_plane):
        certify(control_plane)
        yield control_plane


@pytest.fixture(scope="module")
def mount(plane: ControlPlane) -> Iterator[Mount]:
    """The Secret's files."""
    made = Mount(plane)
    yield made
    made.close()


@pytest.fixture(scope="module")
def only_replica(plane: ControlPlane, mount: Mount) -> Iterator[Replica]:
    """The process behind `replica`."""
    made = Replica(plane, "replica", mount.folder, "--shutdown-notice-seconds=0")
    made.await_ready()
    yield made
    made.end()


@pytest.fixture
def replica(plane: ControlPlane, only_replica: Replica) -> Replica:
    """One webhook that the API server reaches and trusts."""
    certify(plane)
    lead_the_service_to(plane, only_replica.port)
    wait_until(lambda: gated(plane), PATIENCE, "the API server to trust the webhook")
    return only_replica
