"""Phalanx on a control plane of its own: installed from the manifests, its two servers as processes beside it.

Access rules, webhook configurations and definitions are the same as in a real cluster, and the servers use their own
service accounts. The API server reaches the webhook by URL, because no kubelet runs pods here.
"""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import yaml

from certs.cluster_edge import DEFAULT_PLACE
from certs.files import write_self_signed
from cli.installation.installed_objects import (
    component_objects,
    custom_resource_definitions,
    system_objects,
    webhook_configurations,
)
from controller.defaults import LEASE_SECONDS
from controlplane.control_plane import ControlPlane, Manifest, StartError, free_ports, wait_until
from controlplane.running.processes import Program
from kube.keys import API_VERSION, GANG, SYSTEM_NAMESPACE

READY_SECONDS = 300.0
_COMMAND = [sys.executable, "-c", "from cli.main import main; main()"]

_GROUP_COMPONENTS = ("native-groups", "atomic-release")
_SERVICE = f"{DEFAULT_PLACE.service}.{DEFAULT_PLACE.namespace}.svc"
"""The name under which `phalanx ui` trusts the webhook."""


def _component(name: str, file: str) -> list[Manifest]:
    """Return the objects in a file of a component in `manifests`."""
    return [each for each in yaml.safe_load_all((files("manifests") / name / f"{file}.yaml").read_text()) if each]


class Deployment:
    """An installation of Phalanx on one control plane, with its running servers."""

    def __init__(
        self,
        control_plane: ControlPlane,
        lease_seconds: float = LEASE_SECONDS,
        *,
        timeout_seconds: int | None = None,
        webhook_options: Sequence[object] = (),
        controller_options: Sequence[object] = (),
    ) -> None:
        """Prepare a deployment.

        :param lease_seconds: the controllers' lease duration. A standby leads this long after the leader was killed.
            On a busy machine a short lease expires, because the leader renews it late.
        :param timeout_seconds: the timeout of each call of the webhook. None: as in the manifests.
        :param webhook_options: options of `phalanx webhook` besides the usual ones.
        :param controller_options: options of every `phalanx controller` besides the usual ones.
        """
        self._control_plane = control_plane
        self._lease_seconds = lease_seconds
        self._timeout_seconds = timeout_seconds
        self._webhook_options = webhook_options
        self.controller_options = tuple(controller_options)
        self._authority = b""
        self._webhook_port, self._webhook_health, self._controller_health, self._controller_metrics = free_ports(4)
        self._controller_way: tuple[Path | None, tuple[object, ...]] = (None, ())
        """The arguments of the last start of the controller: `kubeconfig` and `options` of `start_controller`."""

    def install(self) -> None:
        """Apply the definitions, the namespace, and the service accounts with their access rules."""
        definitions = custom_resource_definitions()
        self._control_plane.apply(definitions)
        names = [each["metadata"]["name"] for each in definitions]
        self._control_plane.kubectl("wait", "--for=condition=Established", *(f"crd/{name}" for name in names))
        self._control_plane.apply(system_objects())
        self._await_service_account()

    def start_webhook(self) -> Program:
        """Start the webhook and wait until it is ready. `register_webhook` registers it with the API server."""
        folder = self._control_plane.directory / "webhook-certs"
        self._authority = write_self_signed(folder, dns_names=["localhost", _SERVICE], addresses=["127.0.0.1"])
        program = self._run(
            "webhook",
            ["--host", "127.0.0.1", "--port", self._webhook_port, "--health-port", self._webhook_health],
            ["--cert-dir", folder, "--shutdown-notice-seconds", 0, *self._webhook_options],
        )
        self._await_ready(program, self._webhook_health)
        return program

    def register_webhook(self) -> None:
        """Register the webhook's configurations, and wait until the API server calls the webhook, which takes a moment.

        :raises controlplane.api.RefusedError: the API server rejects the configurations.
        """
        configurations = webhook_configurations(self.webhook_url(), self._authority)
        if self._timeout_seconds is not None:
            for webhook in (each for configuration in configurations for each in configuration["webhooks"]):
                webhook["timeoutSeconds"] = self._timeout_seconds
        self._control_plane.apply(configurations)
        wait_until(self._asked, READY_SECONDS, "the API server to ask the webhook")

    def release_atomically(self) -> None:
        """Add the components `native-groups` and `atomic-release`, and wait until members of gangs join PodGroups.

        It needs the webhook, registered, on a control plane with the feature gate `GenericWorkload` and the API version
        `scheduling.k8s.io/v1beta1`.
        """
        self._control_plane.apply(component_objects("atomic-release"))
        self._control_plane.apply(self._with_groups())
        name = "phalanx-joins"
        gang = {"apiVersion": API_VERSION, "kind": "Gang", "metadata": {"name": name}, "spec": {"minMember": 2}}
        path = f"/apis/{API_VERSION}/namespaces/default/gangs"
        self._control_plane.create(path, [gang])
        wait_until(lambda: self._joins(name), READY_SECONDS, "the webhook to let members join PodGroups")
        self._control_plane.request("DELETE", f"{path}/{name}")

    def start_controller(self, kubeconfig: Path | None = None, options: Sequence[object] = ()) -> Program:
        """Start the controller and wait until it is ready.

        :param kubeconfig: the access to the API server. None: the controller's own service account.
        :param options: options of this `phalanx controller` besides those that every controller of the deployment gets.
        """
        program = self._launch_controller(kubeconfig, options)
        self._await_ready(program, self._controller_health)
        return program

    def start_servers(self, controller_options: Sequence[object] = ()) -> None:
        """Start both servers, register the webhook, and wait until both are ready.

        Both start at the same time, because each spends some seconds of CPU on imports.
        """
        controller = self._launch_controller(None, controller_options)
        self.start_webhook()
        self.register_webhook()
        self._await_ready(controller, self._controller_health)

    def ensure_controller(self, options: Sequence[object] = ()) -> None:
        """Ensure that a controller with exactly these options runs. A controller with other options is stopped."""
        program = self._control_plane.program("controller")
        if program.running and self._controller_way == (None, tuple(options)):
            return
        program.stop()  # gives the lease back
        self.start_controller(options=options)

    @property
    def authority(self) -> str:
        """The certificate authority (PEM) that signs the webhook's certificate."""
        return self._authority.decode()

    def webhook_url(self) -> str:
        """Return the base URL of the webhook."""
        return f"https://127.0.0.1:{self._webhook_port}"

    def metrics_url(self) -> str:
        """Return the URL of the controller's metrics."""
        return f"https://127.0.0.1:{self._controller_metrics}/metrics"

    def _launch_controller(self, kubeconfig: Path | None, options: Sequence[object]) -> Program:
        self._controller_way = (kubeconfig, tuple(options))
        return self._run(
            "controller",
            ["--health-address", "127.0.0.1", "--health-port", self._controller_health],
            [
                "--lease-seconds",
                self._lease_seconds,
                "--metrics-port",
                self._controller_metrics,
                *self.controller_options,
                *options,
            ],
            kubeconfig,
        )

    def _run(
        self, name: str, address: Sequence[object], more: Sequence[object], kubeconfig: Path | None = None
    ) -> Program:
        config = kubeconfig or self._control_plane.kubeconfig_for(SYSTEM_NAMESPACE, f"phalanx-{name}")
        arguments = [*_COMMAND, name, "--kubeconfig", config, *address, *more]
        environment = {**os.environ, "HOME": str(self._control_plane.directory)}
        if environment.pop("PYTHONDONTWRITEBYTECODE", ""):
            # The servers and their children are five processes. Each would compile all modules, for 4 s of a core.
            environment["PYTHONPYCACHEPREFIX"] = str(self._control_plane.directory / "compiled")
        return self._control_plane.run(name, [str(each) for each in arguments], environment)

    def _await_ready(self, program: Program, port: int) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline and program.running:
            with suppress(URLError, OSError), urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
                if answer.status == 200:  # noqa: PLR2004 - OK
                    return
            time.sleep(0.05)
        raise StartError(f"{program.name} did not become ready:\n{program.tail()}")

    def _asked(self) -> bool:
        """Whether the API server calls the webhook: by dry runs, a member gets a gate and an invalid Gang is
        refused.
        """
        metadata = {"name": "phalanx-is-asked", "namespace": "default", "labels": {GANG: "phalanx-is-asked"}}
        containers = [{"name": "main", "image": "pause"}]
        member = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}
        more_than_all = {"minMember": 2, "podSets": [{"name": "main", "count": 1, "minCount": 1}]}
        wrong = {"apiVersion": API_VERSION, "kind": "Gang", "metadata": metadata, "spec": more_than_all}
        pod = self._tried("/api/v1/namespaces/default/pods", member)
        gang = self._tried(f"/apis/{API_VERSION}/namespaces/default/gangs", wrong)
        return bool(pod.get("spec", {}).get("schedulingGates")) and "denied the request" in gang.get("message", "")

    def _with_groups(self) -> Sequence[Manifest]:
        """Return the webhook configurations, patched by the components `native-groups` and `atomic-release`."""
        made = webhook_configurations(self.webhook_url(), self._authority)
        for whole, file in zip(made, ("mutating", "validating"), strict=True):
            (patch,) = _component("native-groups", file)
            bundle = whole["webhooks"][0]["clientConfig"]["caBundle"]
            for each in patch["webhooks"]:
                url = self.webhook_url() + each["clientConfig"]["service"]["path"]
                whole["webhooks"].append({**each, "clientConfig": {"url": url, "caBundle": bundle}})
        annotations = [_component(each, "mutating")[0]["metadata"]["annotations"] for each in _GROUP_COMPONENTS]
        made[0]["metadata"]["annotations"] = {key: value for each in annotations for key, value in each.items()}
        return made

    def _joins(self, gang: str) -> bool:
        """Whether a member of the gang, which needs all its members, would join a PodGroup (a dry run)."""
        metadata = {"name": "phalanx-joins", "namespace": "default", "labels": {GANG: gang}}
        spec = {"containers": [{"name": "main", "image": "pause"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        return "schedulingGroup" in self._tried("/api/v1/namespaces/default/pods", pod).get("spec", {})

    def _tried(self, path: str, manifest: dict[str, Any]) -> dict[str, Any]:
        """Return the object as the API server would store it (by a dry run), or the Status that refuses it."""
        answer: dict[str, Any] = self._control_plane.request("POST", f"{path}?dryRun=All", manifest)
        return answer

    def _await_service_account(self) -> None:
        """Wait for the default service account of the namespace `phalanx-system`. Without it, the API server admits no
        probe pod of the controller in this namespace.
        """
        path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/serviceaccounts/default"

        def there() -> bool:
            answer: Any = self._control_plane.request("GET", path)
            return bool(answer.get("kind") == "ServiceAccount")

        wait_until(there, READY_SECONDS, f"the service account of {SYSTEM_NAMESPACE}")
