"""`docs/start/your-cluster.md`, followed word by word on a machine that has the files of a release, and no checkout.

`PHALANX_RELEASE` names the folder with these files, as `make release` writes them. The machine is an empty folder with
its own HOME. Its PATH has a new environment of Python, kubectl, Helm and the tools of the page, and nothing else.

The user's cluster is a control plane with simulated nodes, so this module takes the part of one node and the network:

- It runs the containers of the two Deployments from the release's image (`umoci`, `runc`). No node pulls the image.
- The containers have other ports, because all of them share this machine's network.
- It forwards the webhook's Service to its container.
- Three more nodes take the pods of Phalanx. They are cordoned until both containers are ready, so that `kubectl
  rollout status` waits for them.
- Pods of Jobs run until they are deleted (`tests/going_on.py`).

Everything else, such as access rules, certificates, Services and webhook configurations, is as the page's commands
install it.

    PHALANX_RELEASE=DIR pytest -s -m long tests/packaging/test_fresh_machine.py

The commands and what they print are the output.
"""

import os
import platform
import re
import shutil
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from going_on import let_pods_go_on
from image_bundle import Bundle
from page_commands import DOCS, ROOT, Shell, play
from test_image import FromTheImage

from certs.cluster_edge import DEFAULT_PLACE
from controlplane.checkers import checker
from controlplane.control_plane import wait_until
from controlplane.programs.binaries import find_binaries
from kube.keys import SYSTEM_NAMESPACE

RELEASE = os.environ.get("PHALANX_RELEASE", "")
PAGE = DOCS / "start" / "your-cluster.md"
pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.long,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not RELEASE, reason="PHALANX_RELEASE names no files of a release"),
]

TOOLS = ("kubectl", "helm", "bash", "env", "sha256sum", "tar", "gzip")
"""The programs that the page's commands need, besides Python."""
PASSED_ON = re.compile(r"PIP_.*|SSL_.*|REQUESTS_CA_BUNDLE|.*_proxy|.*_PROXY")
"""The environment variables that lead to the machine's package index."""
SERVICES = "--service-cluster-ip-range=127.96.0.0/16"
"""Every address of 127.0.0.0/8 is this machine's, so the API server reaches Services without kube-proxy."""
SYSTEM = "example.com/system"
"""A label of the nodes that take the pods of Phalanx."""
_OUTSIDE = re.compile(r"^3 nodes outside: without example\.com/rack\n\n", re.MULTILINE)
"""The line of `phalanx topology` about these nodes. The page's cluster has no such nodes."""
POLL_SECONDS = 0.3
REMOVED_SECONDS = 120.0
"""The most seconds until the API server has deleted the namespace, after the command that asks for it."""
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{SYSTEM_NAMESPACE}/deployments"
KINDS = (
    "customresourcedefinitions,mutatingwebhookconfigurations,validatingwebhookconfigurations,namespaces,priorityclasses,"
    "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings"
)
"""The kinds of the objects without a namespace that an installation has."""
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def system_node(name: str) -> dict[str, Any]:
    """Return a node that takes no pods yet. Unlike the nodes of the page, it has ephemeral storage for Phalanx."""
    has = {"cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, SYSTEM: ""}}
    status = {"allocatable": has, "capacity": has}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"unschedulable": True}, "status": status}


class UsersCluster(FromTheImage):
    """A cluster with nodes and without Phalanx, whose nodes run the containers of Phalanx when it is installed."""

    def __init__(self, image: Bundle) -> None:
        super().__init__(image, {"kube-apiserver": [SERVICES]})
        self._bundle = image
        self._running = set[str]()
        self._takes_pods = False
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._run_pods, self._forward)]

    def objects(self) -> list[dict[str, Any]]:
        """The Deployments of Phalanx that are in the cluster."""
        return list(self.plane.request("GET", DEPLOYMENTS).get("items") or [])

    def pod(self, name: str) -> dict[str, Any]:
        """The spec of a server's pods, from its Deployment in the cluster."""
        (found,) = (each for each in self.objects() if each["metadata"]["name"] == f"phalanx-{name}")
        spec: dict[str, Any] = found["spec"]["template"]["spec"]
        return spec

    def remains(self) -> list[str]:
        """Return the objects of Phalanx that are in the cluster, as `kind/name`, and the namespaces that it created."""
        found = self.plane.kubectl("get", KINDS, "--output=name").split()
        return [each for each in found if "phalanx" in each]

    def _install(self) -> None:
        """Create the nodes, and start what stands in for kubelets and network. Users install Phalanx themselves."""
        self.plane.kubectl("apply", "-f", str(ROOT / "examples" / "first-gang" / "nodes.yaml"))
        let_pods_go_on(self.plane)
        self.plane.create("/api/v1/nodes", [system_node(f"system-{number}") for number in range(3)])
        for each in (self._kubelet, *self._threads):
            each.start()

    def _run_pods(self) -> None:
        """Run the container of each Deployment, as kubelets would. Nodes take pods when all containers are ready."""
        while not self._over.wait(POLL_SECONDS):
            with suppress(OSError, subprocess.CalledProcessError):
                self._follow({each["metadata"]["name"].removeprefix("phalanx-") for each in self.objects()})

    def _follow(self, wanted: set[str]) -> None:
        for name in self._running - wanted:
            self.plane.program(name).stop()
            self._bundle.remove(name)
            self._running.discard(name)
        if not wanted:
            for each in self.certificates.iterdir():
                each.unlink()
        for name in sorted(wanted - self._running):
            self.start(name)
            self._running.add(name)
        takes_pods = self._running == {*self.health} and all(map(self._is_ready, self.health))
        if takes_pods != self._takes_pods:
            self.plane.kubectl("uncordon" if takes_pods else "cordon", f"--selector={SYSTEM}")
            self._takes_pods = takes_pods

    def _is_ready(self, name: str) -> bool:
        with suppress(URLError, OSError), urlopen(f"http://127.0.0.1:{self.health[name]}/readyz", timeout=5) as answer:
            return bool(answer.status == HTTPStatus.OK)
        return False

    def _forward(self) -> None:
        """Forward the webhook's Service to the webhook's container, as kube-proxy would."""
        served = dict[str, socketserver.ThreadingTCPServer]()
        path = f"/api/v1/namespaces/{DEFAULT_PLACE.namespace}/services/{DEFAULT_PLACE.service}"
        while not self._over.wait(POLL_SECONDS):
            with suppress(OSError):
                address = self.plane.request("GET", path).get("spec", {}).get("clusterIP", "")
                if address and address not in served:
                    served[address] = socketserver.ThreadingTCPServer((address, 443), _to(self.port))
                    served[address].daemon_threads = True
                    threading.Thread(target=served[address].serve_forever, daemon=True).start()
        for each in served.values():
            each.shutdown()
            each.server_close()


def _to(port: int) -> type[socketserver.BaseRequestHandler]:
    """Return a handler that passes connections on to a port of this machine."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 30) as onward:
                back = threading.Thread(target=_pass_on, args=(onward, self.request), daemon=True)
                back.start()
                _pass_on(self.request, onward)
                back.join()

    return Handler


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(65536):
            target.sendall(part)
        target.shutdown(socket.SHUT_WR)


class FreshMachine(Shell):
    """A user's machine with the files of a release, and a kubeconfig for the cluster."""

    seconds = 1200.0
    """On a slow machine pip takes minutes to compile the modules of the dependencies."""

    def __init__(self, folder: Path, cluster: UsersCluster) -> None:
        home, tools = folder / "home", folder / "tools"
        shutil.copytree(RELEASE, folder / "release")
        (home / ".kube").mkdir(parents=True)
        shutil.copy(cluster.plane.kubeconfig, home / ".kube" / "config")
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
        tools.mkdir()
        own = {"kubectl": find_binaries()["kubectl"], "helm": str(checker("helm"))}
        for each in TOOLS:
            (tools / each).symlink_to(own.get(each) or shutil.which(each) or each)
        passed_on = {name: value for name, value in os.environ.items() if PASSED_ON.fullmatch(name)}
        path = {"HOME": str(home), "PATH": f"{folder / 'venv' / 'bin'}:{tools}"}
        self._environment = {
            **passed_on,
            "COLUMNS": "120",
            "NO_COLOR": "1",
            "PIP_PROGRESS_BAR": "off",
            "LC_ALL": "C.UTF-8",
            **path,
        }
        self._folder, self._status, self.at = folder, 0, folder / "release"

    def run(self, command: str) -> tuple[str, int]:
        """Run a command, answer its question with yes, and print what it printed. Return it without `_OUTSIDE`."""
        printed, status = super().run(f"{{ {command}\n}} <<< y")
        print(f"$ {command}\n{printed}", end="", flush=True)  # noqa: T201 - the output is what the command is for
        return _OUTSIDE.sub("", printed), status


@pytest.fixture(scope="module")
def cluster() -> Iterator[UsersCluster]:
    """The user's cluster, with the nodes of the page."""
    folder = Path(tempfile.mkdtemp(prefix="phalanx-image-"))
    folder.chmod(0o755)
    archives = Path(RELEASE).glob(f"phalanx-*-linux-{ARCHITECTURES[platform.machine()]}.oci.tar")
    try:
        with UsersCluster(Bundle(next(archives), folder)) as made:
            yield made
    finally:
        shutil.rmtree(folder)


def blocks_of_sh() -> list[list[str]]:
    """Return the commands of the page's blocks of `sh`, block by block."""
    found = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return [[line for line in each.splitlines() if line] for each in found]


def follow(machine: FreshMachine, commands: list[str]) -> None:
    """Run commands one after the other. The first one that fails ends the test."""
    for each in commands:
        printed, status = machine.run(each)
        assert status == 0, f"$ {each}\n{printed}"


@pytest.fixture(scope="module")
def machine(cluster: UsersCluster, tmp_path_factory: pytest.TempPathFactory) -> FreshMachine:
    """A machine on which the page's first commands have checked and unpacked the files."""
    fresh = FreshMachine(tmp_path_factory.mktemp("machine"), cluster)
    follow(fresh, blocks_of_sh()[0])
    return fresh


@pytest.mark.parametrize("way", ["kubectl", "helm"])
def test_the_page_holds_on_a_fresh_machine(cluster: UsersCluster, machine: FreshMachine, way: str) -> None:
    """With kustomize, and then with Helm. Each time, nothing of Phalanx remains at the end."""
    _, *ways, check, go_back = blocks_of_sh()
    (install,) = (each for each in ways if each[0].startswith(way))
    assert cluster.remains() == []
    follow(machine, [*install, *check])
    assert "\n".join(play(PAGE, machine)) == ""
    follow(machine, [each for each in go_back if way == "helm" or not each.startswith("helm")])
    wait_until(lambda: cluster.remains() == [], REMOVED_SECONDS, "everything to be removed")
    cluster.plane.kubectl("delete", "jobs,pods", "--all")
