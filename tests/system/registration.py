"""The registration of the session's webhook, kept from test to test as long as it is unchanged.

After each new registration it takes a moment until the API server calls the webhook again.
"""

from certs.cluster_edge import CONFIGURATIONS
from controlplane.control_plane import ControlPlane
from controlplane.deployment import Deployment

NAMES = tuple(name for _, name in CONFIGURATIONS)


class Registration:
    """The last registration: the webhook's process id, and the resource versions of its configurations."""

    def __init__(self, deployment: Deployment, control_plane: ControlPlane) -> None:
        self._deployment, self._control_plane = deployment, control_plane
        self._registered: tuple[int, list[str]] = (0, [])

    @property
    def holds(self) -> bool:
        """Whether the API server still calls the registered process, with unchanged configurations."""
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
