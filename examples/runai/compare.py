# ruff: noqa: INP001 -- a script that is run by its path
"""Measures how often pod affinity alone, and how often Phalanx, splits a workload over racks.

The cluster and workload 3 are those of the figure in Run:ai's guide on topology-aware scheduling (README.md).

    python examples/runai/compare.py [RUNS]

The script starts its own control plane with the stock scheduler. Without Phalanx, it runs six pods that prefer the
rack of each other, then six that require it. With Phalanx, it runs the guide's Job. Each case runs RUNS times (20 by
default).
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))  # the control plane is no part of the installed package

from controlplane.control_plane import ControlPlane, wait_until  # noqa: E402
from controlplane.deployment import Deployment  # noqa: E402

RACK = "cloud.provider.com/topology-rack"
PODS = 6
PATIENCE = 60.0
QUIET = 3.0
"""Seconds without a new binding after which pods without a node count as stuck."""

Object = dict[str, Any]


def main() -> None:
    """Measure preferred affinity, required affinity and Phalanx, and print a line for each."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with ControlPlane() as control_plane:
        for name in ("nodes.yaml", "running-workloads.yaml"):
            control_plane.kubectl("apply", "-f", str(HERE / name))
        nodes = [each["metadata"]["name"] for each in yaml.safe_load_all((HERE / "nodes.yaml").read_text("utf-8"))]
        control_plane.await_nodes(nodes)
        cluster = Cluster(control_plane)
        preferred = cluster.measure(runs, lambda: cluster.affinity_pods("preferred"))
        tell("pod affinity, preferred", preferred)
        tell("pod affinity, required", cluster.measure(runs, lambda: cluster.affinity_pods("required")))
        deployment = Deployment(control_plane)
        deployment.install()
        deployment.start_webhook()
        deployment.register_webhook()
        deployment.start_controller()
        control_plane.kubectl("apply", "-f", str(HERE / "topology.yaml"))
        tell("Phalanx", cluster.measure(runs, cluster.job))


def tell(how: str, seen: Mapping[str, int]) -> None:
    """Print one line: in how many runs the pods were split over racks, how many were incomplete, and each outcome.

    :param how: the name of the case.
    :param seen: by outcome (`Cluster._outcome`), the number of runs.
    """
    runs = sum(seen.values())
    split = sum(times for where, times in seen.items() if " + " in where)
    stuck = sum(times for where, times in seen.items() if "without a node" in where)
    details = "; ".join(f"{times} x {where}" for where, times in sorted(seen.items(), key=lambda each: -each[1]))
    print(f"{how}: {split} of {runs} split, {stuck} of {runs} incomplete ({details})", flush=True)  # noqa: T201 -- its report


class Cluster:
    """A running control plane with the nodes of the figure in Run:ai's guide, on which the figure's workloads 1 and 2
    run.
    """

    def __init__(self, control_plane: ControlPlane) -> None:
        self._control_plane = control_plane
        nodes = control_plane.request("GET", "/api/v1/nodes")["items"]
        self._racks = {each["metadata"]["name"]: each["metadata"]["labels"][RACK] for each in nodes}

    def measure(self, runs: int, submit: Callable[[], None]) -> Counter[str]:
        """Create the workload that is measured, `runs` times, and delete it each time. Return the number of runs by
        outcome (`_outcome`).

        :param submit: a function that creates the workload.
        """
        seen: Counter[str] = Counter()
        for _ in range(runs):
            submit()
            seen[self._outcome()] += 1
            self._clean()
        return seen

    def affinity_pods(self, how: str) -> None:
        """Create the workload that is measured as six pods, with pod affinity to each other by rack.

        :param how: "preferred" or "required".
        """
        term = {"labelSelector": {"matchLabels": {"app": "workload-3"}}, "topologyKey": RACK}
        rules: Object = {
            "preferred": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]
            },
            "required": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
        }
        template = yaml.safe_load((HERE / "job.yaml").read_text("utf-8"))["spec"]["template"]
        pods = [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"workload-3-{index}", "labels": {"app": "workload-3"}},
                "spec": {**template["spec"], "affinity": {"podAffinity": rules[how]}},
            }
            for index in range(PODS)
        ]
        self._control_plane.create("/api/v1/namespaces/default/pods", pods)

    def job(self) -> None:
        """Create the workload that is measured as the Job of Run:ai's guide, which is a gang of Phalanx."""
        self._control_plane.kubectl("apply", "-f", str(HERE / "job.yaml"))

    def _pods(self) -> list[Object]:
        items = self._control_plane.request("GET", "/api/v1/namespaces/default/pods")["items"]
        return [each for each in items if not each["metadata"]["name"].startswith(("workload-1", "workload-2"))]

    def _outcome(self) -> str:
        """Return where the pods are when all have nodes, or when no further pod gets one for `QUIET` seconds.

        Example: "4 in rack-a + 2 in rack-b". Pods without a node are listed at the end.
        """
        last, since = -1, time.monotonic()
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            pods = self._pods()
            bound = [each["spec"]["nodeName"] for each in pods if each["spec"].get("nodeName")]
            if len(bound) != last:
                last, since = len(bound), time.monotonic()
            if len(bound) == PODS or (bound and time.monotonic() - since > QUIET):
                racks = Counter(self._racks[node] for node in bound)
                parts = [f"{count} in {rack}" for rack, count in sorted(racks.items())]
                rest = [f"{PODS - len(bound)} without a node"] if len(bound) < PODS else []
                return ", ".join([" + ".join(parts), *rest])
            time.sleep(0.1)
        return f"{PODS} without a node"

    def _clean(self) -> None:
        self._control_plane.kubectl("delete", "jobs", "--all", "--cascade=background", "--wait=false")
        names = [each["metadata"]["name"] for each in self._pods()]
        if names:
            gone = ("--force", "--grace-period=0", "--ignore-not-found", "--wait=false")
            self._control_plane.kubectl("delete", "pods", *names, *gone)
        wait_until(lambda: not self._pods(), PATIENCE, "workload 3 to be gone")


if __name__ == "__main__":
    main()
