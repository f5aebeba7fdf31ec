"""Starts what every live benchmark needs: the flags of the control plane's components, the nodes, and Phalanx with its
two servers.
"""

import time
from collections.abc import Sequence

import click

from benchmarks.live import load
from cli.installation.installed_objects import component_objects
from controlplane.control_plane import LONG_LEASES, ControlPlane
from controlplane.deployment import Deployment

_LONGEST_START = 900.0
"""Seconds that the nodes may take to become ready."""
_POLL_SECONDS = 5.0


def flags(scheduler_qps: int | None) -> dict[str, Sequence[str]]:
    """Return, by component of the control plane, the flags that the benchmark adds.

    :param scheduler_qps: how many requests a second the scheduler may send; None: its default.
    """
    limits = [f"--kube-api-qps={scheduler_qps}", f"--kube-api-burst={scheduler_qps}"] if scheduler_qps else []
    return {**LONG_LEASES, "kube-scheduler": limits}


def add_nodes(plane: ControlPlane, count: int) -> None:
    """Create nodes and wait until they are ready. The wait polls seldom, because the list of so many nodes is large.

    :raises click.ClickException: the nodes were not ready in time.
    """
    plane.create("/api/v1/nodes", [load.node(number) for number in range(count)])
    end = time.monotonic() + _LONGEST_START
    while sum(map(load.ready, plane.request("GET", "/api/v1/nodes")["items"])) < count:
        if time.monotonic() > end:
            raise click.ClickException(f"the nodes were not ready within {_LONGEST_START:.0f} s")
        time.sleep(_POLL_SECONDS)


def install(
    plane: ControlPlane,
    timeout_seconds: int | None = None,
    *,
    controller_options: Sequence[object] = (),
    atomic_release: bool = False,
    components: Sequence[str] = (),
) -> dict[str, int]:
    """Install Phalanx with its two servers, and return their process ids by name.

    :param timeout_seconds: the timeout of each call of the webhook. None: as in the manifests.
    :param controller_options: options of `phalanx controller` besides the usual ones.
    :param atomic_release: whether gangs start in one scheduling cycle, for which the control plane needs the feature
        gate `GenericWorkload`.
    :param components: optional components that bring rights, such as `devices`.
    """
    deployment = Deployment(plane, timeout_seconds=timeout_seconds, controller_options=controller_options)
    deployment.install()
    for component in components:
        plane.apply(component_objects(component))
    plane.apply([load.topology()])
    webhook = deployment.start_webhook()
    deployment.register_webhook()
    if atomic_release:
        deployment.release_atomically()
    return {"webhook": webhook.pid, "controller": deployment.start_controller().pid}
