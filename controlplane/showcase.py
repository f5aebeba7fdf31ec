"""The cluster of `phalanx demo --keep`: 128 nodes with gangs in every phase, and the live page on the loopback
address.
"""

import shlex
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from werkzeug.serving import WSGIRequestHandler, make_server

from cli.ui import LOOPBACK, Gateway
from controlplane.control_plane import ControlPlane, Manifest, wait_until
from controlplane.deployment import Deployment
from controlplane.progress import Progress

EXAMPLE = Path("examples") / "showcase"
"""The manifests, from the root of the checkout."""
ROOT = Path(__file__).parent.parent
SPINES, BLOCKS_PER_SPINE, RACKS_PER_BLOCK, NODES_PER_RACK = 2, 4, 2, 8
TERMINATING_SECONDS = 600.0
"""How long an evicted pod of low priority takes to end: long enough to look at a gang that waits for its victims."""
RESTART_SECONDS = 5.0
"""How long a lost member has no place before the controller restarts its gang. The default of 30 s would delay the
demo.
"""
PATIENCE_SECONDS = 600.0
_GPUS = 8
_MODELS: Mapping[int, str] = {13: "a100", 14: "a100", 15: "h200"}
"""By number of a rack, the model of its GPUs. Other racks have H100."""
_GANGS = "/apis/phalanx.dev/v1alpha1/gangs"

PHASES: Mapping[str, tuple[str, str]] = {
    "team-a/pretrain": ("Placed", ""),
    "team-a/finetune-1": ("Placed", ""),
    "team-a/finetune-2": ("Placed", ""),
    "team-b/embed": ("Placed", ""),
    "team-b/hotfix": ("Placed", ""),
    "team-a/render": ("Placed", ""),
    "team-a/eval": ("Unplaceable", "NoRoom"),
    "research/ablation": ("Placed", ""),
    "research/baseline": ("Placed", ""),
    "research/sweep": ("Waiting", "QuotaExhausted"),
    "research/probe": ("Waiting", "QuotaExhausted"),
    "team-b/scale-up": ("Unplaceable", "NoRoom"),
    "research/giant": ("Unplaceable", "NeverFits"),
    "team-b/incident": ("Evicting", ""),
    "team-a/resume": ("Waiting", ""),
}
"""By gang: the phase that it reaches, and the reason; "" for any reason."""
EVICTED, RESTARTED = "team-a/eval", "team-a/render"
"""A gang that `team-b/hotfix` evicts, and a gang that restarts in another rack because a node is drained."""


class Showcase:
    """The cluster of `phalanx demo --keep`: creates its nodes and gangs, serves its page, and prints what it shows."""

    def __init__(self, control_plane: ControlPlane, deployment: Deployment, progress: Progress) -> None:
        self._control_plane = control_plane
        self._deployment = deployment
        self._progress = progress

    def furnish(self) -> None:
        """Create the nodes, the topology and the queue of the demo cluster."""
        with self._progress.step("creating 128 nodes in 2 spines, 8 blocks and 16 racks"):
            self._control_plane.add_nodes(nodes())
            self._apply("topology.yaml", "queue.yaml")

    def populate(self) -> None:
        """Create the gangs, and wait until each has its phase.

        :raises TimeoutError: a gang did not reach its phase within `PATIENCE_SECONDS`.
        """
        with self._progress.step("creating gangs, and waiting until eight are placed"):
            self._apply("placed.yaml")
            placed = {key for key, (phase, _) in PHASES.items() if phase == "Placed"}
            self._await(dict.fromkeys(placed - {"team-b/hotfix"} | {EVICTED}, ("Placed", "")))
        with self._progress.step("filling free nodes with pods of low priority, and draining a node"):
            self._apply("background.yaml", "hotfix.yaml")
            self._drain_a_node()
            wait_until(self._background_runs, PATIENCE_SECONDS, "the pods of team-b/background to run")
        with self._progress.step("creating gangs that wait, that never fit and that evict"):
            self._apply("waiting.yaml")
            self._await(PHASES)
            wait_until(self._has_restarted, PATIENCE_SECONDS, f"the restart of {RESTARTED}")

    def phases(self) -> Mapping[str, tuple[str, str]]:
        """Return the phase and the reason of each gang, by `namespace/name`."""
        found: Iterable[dict[str, Any]] = self._control_plane.request("GET", _GANGS)["items"]
        return {
            f"{each['metadata']['namespace']}/{each['metadata']['name']}": (
                each.get("status", {}).get("phase", ""),
                each.get("status", {}).get("reason", ""),
            )
            for each in found
        }

    @contextmanager
    def page(self) -> Iterator[str]:
        """Serve the web page on the loopback until the `with` block ends. Yield its URL, which contains the
        administrator's key.
        """
        gateway = Gateway(self._deployment.webhook_url(), self._deployment.authority, lambda: self._control_plane.token)
        server = make_server(LOOPBACK, 0, gateway.application, threaded=True, request_handler=_Silent)
        serving = threading.Thread(target=server.serve_forever, name="page", daemon=True)
        serving.start()
        try:
            yield gateway.address(server.server_port)
        finally:
            server.shutdown()
            serving.join()
            server.server_close()

    def tell(self, console: Console, page: str) -> None:
        """Print what the cluster shows, and how to go on: the URL of the page, and three commands."""
        console.print("\n128 nodes with 8 GPUs each, and a gang in every phase:\n")
        for key, (phase, reason) in sorted(self.phases().items()):
            console.print(f"  {key:<20}{phase}{f', {reason}' if reason else ''}")
        config = shlex.quote(str(self._control_plane.kubeconfig))
        kubectl = shlex.quote(self._control_plane.path_of("kubectl"))
        gang = shlex.quote(str(EXAMPLE / "your-gang.yaml"))
        steps = (
            ("Open the page", page),
            ("Submit a gang of your own", f"{kubectl} --kubeconfig {config} apply -f {gang}"),
            ("Ask why one waits", f"{own_command()} why research/sweep --kubeconfig {config}"),
            ("List all gangs, with those that have ended", f"{own_command()} gangs -A --all --kubeconfig {config}"),
        )
        for title, command in steps:
            console.print(f"\n{title}:")
            click.echo(f"  {command}")  # on one line, however long, to be copied

    def _apply(self, *files: str) -> None:
        for file in files:
            self._control_plane.kubectl("apply", "-f", str(ROOT / EXAMPLE / file))

    def _await(self, wanted: Mapping[str, tuple[str, str]]) -> None:
        def reached() -> bool:
            found = self.phases()
            return all(
                key in found and found[key][0] == phase and reason in ("", found[key][1])
                for key, (phase, reason) in wanted.items()
            )

        wait_until(reached, PATIENCE_SECONDS, f"the phases of {', '.join(wanted)}")

    def _drain_a_node(self) -> None:
        """Drain a node of the demo's gang with `onFailure: Restart`. The gang's rack has no other free node, so the
        gang moves as a whole.
        """
        node = self._pods("team-a", "app=render")[0]["spec"]["nodeName"]
        self._control_plane.kubectl("drain", node, "--ignore-daemonsets")

    def _has_restarted(self) -> bool:
        namespace, name = RESTARTED.split("/")
        gang = self._control_plane.request("GET", f"/apis/phalanx.dev/v1alpha1/namespaces/{namespace}/gangs/{name}")
        return bool(gang["status"].get("restarts")) and gang["status"]["phase"] == "Placed"

    def _background_runs(self) -> bool:
        pods = self._pods("team-b", "batch.kubernetes.io/job-name=background")
        return bool(pods) and all(each["spec"].get("nodeName") for each in pods)

    def _pods(self, namespace: str, selector: str) -> list[Manifest]:
        path = f"/api/v1/namespaces/{namespace}/pods?labelSelector={selector}"
        pods: list[Manifest] = self._control_plane.request("GET", path)["items"]
        return pods


class _Silent(WSGIRequestHandler):
    """Handles the requests for the demo's page. It logs no request, because the URL of the first one contains the
    administrator's key.
    """

    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        """Log nothing: the parent class would log each request with its URL."""


def nodes() -> list[Manifest]:
    """Return the nodes, `gpu-000` to `gpu-127`, with the labels of their spine, block and rack."""
    return [_node(number) for number in range(SPINES * BLOCKS_PER_SPINE * RACKS_PER_BLOCK * NODES_PER_RACK)]


def _node(number: int) -> Manifest:
    name, rack = f"gpu-{number:03}", number // NODES_PER_RACK
    block = rack // RACKS_PER_BLOCK
    labels = {
        "example.com/spine": f"spine-{block // BLOCKS_PER_SPINE}",
        "example.com/block": f"block-{block}",
        "example.com/rack": f"rack-{rack:02}",
        "example.com/gpu": _MODELS.get(rack, "h100"),
        "kubernetes.io/hostname": name,
    }
    capacity = {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": str(_GPUS), "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": capacity, "capacity": capacity},
    }


def own_command() -> str:
    """Return the command with which `phalanx` was started, in a form that a user can type."""
    started = Path(sys.argv[0])
    return shlex.quote(str(started)) if started.name == "phalanx" else ".venv/bin/phalanx"


def stay(console: Console) -> None:
    """Return only when the user presses Ctrl-C, so that the cluster stays up until then."""
    console.print("\nCtrl-C ends the cluster.")
    try:
        while True:
            time.sleep(1)
    except KeyboardInterrupt:
        console.print("stopping")
