"""Many gangs at once on a control plane, and the resources that the controller uses for them."""

import os
import ssl
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from node_manifests import node_manifest
from prometheus_client.parser import text_string_to_metric_families

from controlplane.control_plane import ControlPlane
from kube.keys import GATE

Object = dict[str, Any]

PATIENCE = 60.0
NODES = 100
RACK = "example.com/rack"
GANGS = "/apis/phalanx.dev/v1alpha1/namespaces/default/gangs"
POD_GROUPS = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/podgroups"
PODS = "/api/v1/namespaces/default/pods"
TOPOLOGY = {
    "apiVersion": "phalanx.dev/v1alpha1",
    "kind": "Topology",
    "metadata": {"name": "datacenter"},
    "spec": {"levels": [{"name": "rack", "nodeLabel": RACK}]},
}
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Crowd:
    """The numbers of gangs that run and wait, and the seconds for which they are observed."""

    waiting: int
    running: int
    seconds: float

    @property
    def starts(self) -> int:
        """The number of new gangs that are started beside them, one after the other."""
        return 10 if self.running >= 1000 else 4

    @property
    def patience(self) -> float:
        """Seconds within which a busy machine has created and observed them all."""
        return 300 + self.seconds + 0.4 * (self.waiting + self.running)


def crowd() -> Crowd:
    """Return the numbers from the environment (`make test-long`), else few enough for every run of the tests."""
    waiting, running, seconds = os.environ.get("PHALANX_MANY_GANGS", "40,160,10").split(",")
    return Crowd(int(waiting), int(running), float(seconds))


def furnish(cluster: ControlPlane) -> None:
    """Nodes in racks of ten."""
    cluster.add_nodes({**node_manifest(f"n{number:03}", {RACK: f"r{number // 10}"}, 200)} for number in range(NODES))
    cluster.apply([TOPOLOGY])


def fill(cluster: ControlPlane, of: Crowd) -> None:
    """Nodes, running gangs of one and two pods in three dialects, and gangs that wait, in four ways."""
    furnish(cluster)
    for path, objects in (
        (GANGS, [*_gangs(of)]),
        (POD_GROUPS, [*_pod_groups(of)]),
        (PODS, [*_running_pods(of), *_waiting_pods(of)]),
    ):
        cluster.create(path, objects)


def gang(name: str, minimum: int) -> Object:
    """Return a Gang object that prefers one rack."""
    named = {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": {"name": name, "namespace": "default"}}
    return {**named, "spec": {"minMember": minimum, "preferred": "rack"}}


def member(name: str, asks: Object, *, cpu: str = "1", node: str = "") -> Object:
    """A pod that asks by its metadata; bound to a node, or gated."""
    containers = [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}]
    spec: Object = {"containers": containers, "terminationGracePeriodSeconds": 0}
    spec |= {"nodeName": node} if node else {"schedulingGates": [{"name": GATE}]} if asks else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **asks},
        "spec": spec,
    }


def _asks(kind: int, name: str, total: int) -> Object:
    """How a pod asks in one of three dialects."""
    return (
        {"labels": {"phalanx.dev/gang": name}},
        {"labels": {"pod-group.scheduling.sigs.k8s.io": name}},
        {
            "labels": {"kueue.x-k8s.io/pod-group-name": name},
            "annotations": {"kueue.x-k8s.io/pod-group-total-count": str(total)},
        },
    )[kind]


def asks_own(name: str) -> Object:
    """Return the metadata that the pods of a Gang object carry."""
    return _asks(0, name, 0)


def _gangs(of: Crowd) -> Iterator[Object]:
    yield from (gang(f"runs-{number}", 1 + number % 2) for number in range(0, of.running, 3))
    yield from (gang(f"waits-{number}", 3) for number in range(0, of.waiting, 4))
    yield from (gang(f"waits-{number}", 2) for number in range(3, of.waiting, 4))


def _pod_groups(of: Crowd) -> Iterator[Object]:
    groups = [(f"runs-{number}", 1 + number % 2) for number in range(1, of.running, 3)]
    groups += [(f"waits-{number}", 3) for number in range(1, of.waiting, 4)]
    for name, minimum in groups:
        named = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup"}
        yield {**named, "metadata": {"name": name, "namespace": "default"}, "spec": {"minMember": minimum}}


def _running_pods(of: Crowd) -> Iterator[Object]:
    for number in range(of.running):
        name, total = f"runs-{number}", 1 + number % 2
        for index in range(total):
            node = f"n{(2 * number + index) % NODES:03}"
            yield member(f"{name}-{index}", _asks(number % 3, name, total), node=node)


def _waiting_pods(of: Crowd) -> Iterator[Object]:
    """Two pods each: of the first three kinds one is missing; the fourth asks for more than any node has."""
    for number in range(of.waiting):
        name, kind = f"waits-{number}", number % 4
        for index in range(2):
            cpu = "300" if kind == 3 else "1"
            yield member(f"{name}-{index}", _asks(kind % 3, name, 3), cpu=cpu)


@dataclass(frozen=True, slots=True)
class Spent:
    """The resources that a controller has used: rounds, their seconds, processor seconds, and its memory now (MiB)."""

    rounds: float
    round_seconds: float
    within: float
    """Rounds that took at most a tenth of a second."""
    processor: float
    memory: float


def spent(url: str, token: str, pid: int) -> Spent:
    """Ask a controller, and the machine."""
    families = text_string_to_metric_families(_scraped(url, token))
    samples = [each for family in families for each in family.samples if "round_duration_seconds" in each.name]
    found: Counter[tuple[str, str]] = Counter()
    for each in samples:  # of rounds that were carried through, and of others
        found[each.name.rpartition("_")[2], each.labels.get("le", "")] += int(each.value)
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return Spent(
        rounds=found["count", ""],
        round_seconds=found["sum", ""],
        within=found["bucket", "0.1"],
        processor=(int(fields[11]) + int(fields[12])) / _TICKS,
        memory=int(status["VmRSS"].split()[0]) / 1024,
    )


def _scraped(url: str, token: str) -> str:
    """The metrics. Asked again, as any scraper would, while an API server that has much to do does not say in time who
    may have them (503).
    """
    open_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    open_context.check_hostname, open_context.verify_mode = False, ssl.CERT_NONE
    request = Request(url, headers={"Authorization": f"Bearer {token}"})  # noqa: S310 - https to ourselves
    until = time.monotonic() + PATIENCE
    while True:
        try:
            with urlopen(request, context=open_context, timeout=30) as answer:  # noqa: S310 - likewise
                return str(answer.read().decode())
        except HTTPError as error:
            if error.code != HTTPStatus.SERVICE_UNAVAILABLE or time.monotonic() > until:
                raise
            time.sleep(1.0)
