"""The registration of the session's webhook, kept from test to test while nobody touches it.

To make it anew takes a moment each time, until the API server asks the webhook again.
"""

from certs.cluster_edge import CONFIGURATIONS
from controlplane.control_plane import ControlPlane
from controlplane.deployment import Deployment

NAMES = tuple(name for _, name in CONFIGURATIONS)


class Registration:
    """What the API server was told last, and of which process."""

    def __init__(self, deployment: Deployment, control_plane: ControlPlane) -> None:
        self._deployment, self._control_plane = deployment, control_plane
        self._registered: tuple[int, list[str]] = (0, [])

    @property
    def holds(self) -> bool:
        """Whether the API server still asks the process that it was told of, about what it was told."""
        return self._registered[0] != 0 and self._registered == self._now()

    def renew(self) -> None:
        """Have the API server ask the webhook that runs, unless it does."""
        if not self.holds:
            self._deployment.register_webhook()
            self._registered = self._now()

    def _now(self) -> tuple[int, list[str]]:
        paths = (f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s/{name}" for kind, name in CONFIGURATIONS)
        found = (self._control_plane.request("GET", path)["metadata"] for path in paths)
        return self._control_plane.program("webhook").pid, [each.get("resourceVersion", "") for each in found]
