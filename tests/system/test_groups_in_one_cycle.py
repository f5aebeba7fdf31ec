"""Gangs that kube-scheduler binds in one cycle, on a control plane whose feature gates for groups are on.

    rack-0: n-0 n-1 n-2      rack-1: n-3 n-4 n-5      each node holds one pod of 4 cpu

The control plane is the file's own: with these gates, the API server keeps `spec.schedulingGroup` of pods.
"""

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from node_manifests import node_manifest
from proxy import Proxy, Request
from system import Object, Phalanx, numbered, pod, unschedulable

from controlplane.control_plane import ControlPlane, Options
from controlplane.deployment import Deployment
from controlplane.recording import Recorder, bound
from kube.keys import GATE, SYSTEM_NAMESPACE
from kube.scheduling_groups import release_group

pytestmark = pytest.mark.controlplane

GATES = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}
VERSIONS = ("scheduling.k8s.io/v1beta1=true",)
RACK = "example.com/rack"
NODES = numbered("n", 6)
POD_GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"


@pytest.fixture(scope="module")
def groups() -> Iterator[Phalanx]:
    """Phalanx with both components, on nodes of two racks."""
    with ControlPlane(Options(feature_gates=GATES, runtime_config=VERSIONS)) as plane:
        deployment = Deployment(plane, 10.0)
        deployment.install()
        deployment.start_webhook()
        deployment.register_webhook()
        deployment.release_atomically()
        plane.add_nodes(node_manifest(name, {RACK: f"rack-{number // 3}"}, 4) for number, name in enumerate(NODES))
        levels = {"levels": [{"name": "rack", "nodeLabel": RACK}]}
        topology = {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Topology", "metadata": {"name": "dc"}}
        plane.apply([{**topology, "spec": levels}])
        deployment.start_controller()
        running = Phalanx(plane, deployment)
        yield running
        running.show_logs()


@pytest.fixture
def phalanxed(groups: Phalanx) -> Iterator[Phalanx]:
    """The cluster without pods and groups, before and after a test."""
    yield groups
    for path in ("/api/v1/namespaces/default/pods", "/apis/phalanx.dev/v1alpha1/namespaces/default/gangs", POD_GROUPS):
        groups.cluster.request("DELETE", path)
    groups.wait(lambda: not groups.pods(), "the pods to be gone")


def gang(name: str, size: int) -> Object:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": metadata, "spec": {"minMember": size}}


def members(name: str, size: int) -> list[Object]:
    """Return the pods of a gang of our own dialect. Each needs a whole node."""
    found = [pod(each, cpu=4) for each in numbered(name, size)]
    for each in found:
        each["metadata"]["labels"] = {"phalanx.dev/gang": name}
    return found


def rivals() -> list[Object]:
    """Return pods of the same priority that want each node, and wait for it."""
    return [pod(f"rival-{name}", cpu=4, nodeSelector={"kubernetes.io/hostname": name}) for name in NODES]


def bound_before_the_last_gate(recorder: Recorder, names: list[str]) -> list[str]:
    """Return the members that were bound while another one had its gate, in the order of the watch."""
    gated, early = set(names), list[str]()
    for event in recorder.events:
        if event.name in names:
            gates = (event.object["spec"].get("schedulingGates") or []) if event.object else []
            if not any(gate["name"] == GATE for gate in gates):
                gated.discard(event.name)
            if bound(event) and gated:
                early.append(event.name)
    return early


def test_no_member_is_bound_before_the_last_gate_and_all_are_bound_then(phalanxed: Phalanx) -> None:
    names = numbered("llm", 4)
    with phalanxed.record() as recorder:
        phalanxed.submit(gang("llm", 4))
        phalanxed.await_phase("llm", "Waiting")  # a pod joins a PodGroup only if the webhook knows the gang's size
        phalanxed.submit(*members("llm", 4))
        phalanxed.await_bound(names)
    assert bound_before_the_last_gate(recorder, names) == []
    own = {phalanxed.pod(name)["spec"]["schedulingGroup"]["podGroupName"] for name in names}
    assert own == {release_group("phalanx", "default", "llm")}
    group = phalanxed.cluster.request("GET", f"{POD_GROUPS}/{own.pop()}")
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 4}}
    conditions = {each["type"]: each["status"] for each in group["status"]["conditions"]}
    assert conditions["PodGroupInitiallyScheduled"] == "True"


def test_members_that_are_created_again_start_in_one_cycle_again(phalanxed: Phalanx) -> None:
    """The PodGroup of the first members is still there, and reports that it was scheduled once."""
    names = numbered("llm", 3)
    phalanxed.submit(gang("llm", 3))
    for _ in range(2):
        with phalanxed.record() as recorder:
            phalanxed.submit(*members("llm", 3))
            phalanxed.await_bound(names)
        assert bound_before_the_last_gate(recorder, names) == []
        assert all("schedulingGroup" in phalanxed.pod(name)["spec"] for name in names)
        for name in names:
            phalanxed.cluster.request("DELETE", f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0")
        phalanxed.wait(lambda: not phalanxed.pods(), "the pods to be gone")
        # While the webhook's cache shows a bound member, a new member is a replacement, which joins no PodGroup.
        phalanxed.wait(
            lambda: _would_join(phalanxed, members("llm", 3)[0]), "the webhook to see that the pods are gone"
        )


def _would_join(phalanxed: Phalanx, member: Object) -> bool:
    """Whether the webhook would let a new member join a PodGroup."""
    answer = phalanxed.cluster.request("POST", "/api/v1/namespaces/default/pods?dryRun=All", member)
    return "schedulingGroup" in answer["spec"]


def test_a_job_that_is_a_gang_starts_in_one_cycle(phalanxed: Phalanx) -> None:
    """Its first pod arrives some milliseconds after the Job: the webhook waits until it knows the number of pods."""
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "4"}}}
    template = {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}}
    spec = {"parallelism": 3, "completions": 3, "completionMode": "Indexed", "backoffLimit": 5, "template": template}
    metadata = {"name": "job", "namespace": "default", "annotations": {"phalanx.dev/gang": "true"}}
    with phalanxed.record() as recorder:
        phalanxed.submit({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
        phalanxed.wait(lambda: len(phalanxed.pods()) == 3, "the Job's pods")
        names = [each["metadata"]["name"] for each in phalanxed.pods()]
        phalanxed.await_bound(names)
    groups = {each["spec"].get("schedulingGroup", {}).get("podGroupName", "") for each in phalanxed.pods()}
    assert bound_before_the_last_gate(recorder, names) == []
    assert len(groups) == 1
    assert groups != {""}
    phalanxed.cluster.request("DELETE", "/apis/batch/v1/namespaces/default/jobs/job?propagationPolicy=Background")


def test_a_scheduler_that_restarts_before_the_last_gate_binds_all_or_none(phalanxed: Phalanx, tmp_path: Path) -> None:
    names, probes, hold = numbered("llm", 4), list[str](), True
    cluster = phalanxed.cluster
    cluster.program("controller").kill()

    def restart(request: Request) -> None:
        nonlocal hold
        if request.verb == "POST" and request.path.split("?")[0].endswith(f"{SYSTEM_NAMESPACE}/pods"):
            probes.append(request.path)
            left = [name for name in names if phalanxed.pod(name)["spec"].get("schedulingGates")]
            if hold and len(left) == 1:
                hold = False
                scheduler = cluster.program("kube-scheduler")
                scheduler.kill()
                phalanxed.submit(*rivals())
                scheduler.start()
                cluster.await_ready("kube-scheduler")

    with Proxy(cluster.kubeconfig_for(SYSTEM_NAMESPACE, "phalanx-controller"), tmp_path) as proxy:
        proxy.before = restart
        controller = phalanxed.deployment.start_controller(proxy.kubeconfig())
        with phalanxed.record() as recorder:
            phalanxed.submit(gang("llm", 4))
            phalanxed.await_phase("llm", "Waiting")
            phalanxed.submit(*members("llm", 4))
            phalanxed.await_bound(names)
        controller.terminate()
        controller.wait()
    phalanxed.deployment.start_controller()
    assert not hold
    assert bound_before_the_last_gate(recorder, names) == []


def test_a_group_of_kubernetes_is_planned_and_starts_in_one_cycle_without_its_extra(phalanxed: Phalanx) -> None:
    """rack-1 holds three of the four pods. The fourth stays pending, and would block the others if it stayed gated."""
    names = numbered("train", 4)
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": 3}}}
    spec["schedulingConstraints"] = {"topology": [{"key": RACK}]}
    phalanxed.submit(pod("busy", cpu=1, nodeSelector={"kubernetes.io/hostname": "n-0"}))
    phalanxed.await_bound(["busy"])
    metadata = {"name": "train", "namespace": "default"}
    phalanxed.submit(
        {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec}
    )
    with phalanxed.record() as recorder:
        phalanxed.submit(*(pod(name, cpu=4, schedulingGroup={"podGroupName": "train"}) for name in names))
        phalanxed.wait(lambda: sum(map(bool, phalanxed.nodes_of(names).values())) == 3, "three of them to be bound")
    places = phalanxed.nodes_of(names)
    assert sorted(filter(None, places.values())) == ["n-3", "n-4", "n-5"]
    assert bound_before_the_last_gate(recorder, names) == []
    extra = next(name for name, node in places.items() if not node)
    phalanxed.wait(lambda: unschedulable(phalanxed.pod(extra)), "the scheduler to have tried the extra")
    phalanxed.wait(lambda: phalanxed.status("train")["members"]["bound"] == 3, "the status to count the bound members")
    assert phalanxed.status("train")["phase"] == "Released"


def test_a_wrong_group_is_refused_where_phalanx_plans_them(phalanxed: Phalanx) -> None:
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "schedulingConstraints": {"topology": [{"key": "row"}]}}
    metadata = {"name": "wrong", "namespace": "default"}
    group = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec}
    phalanxed.await_refusal('spec.schedulingConstraints.topology[0].key: "row" is not a level of Topology dc', group)


ROUNDS = int(os.environ.get("PHALANX_ATOMIC_GANGS", "25"))
KILLS = int(os.environ.get("PHALANX_ATOMIC_KILLS", "5"))
"""Of the rounds, the number in which the scheduler is killed when the rivals come."""
SIZE = 4
WRITES = 2 * SIZE + 6
"""The leader's writes for a gang: its status, the nominations, a probe and its end, the PodGroup, and the gates."""
LEFT = len(NODES) - SIZE
"""The nodes that the gang leaves to the rivals."""


class Strike:
    """Creates the rivals after a certain write of the leader for a gang, and may kill the scheduler right before."""

    def __init__(self, phalanx: Phalanx, proxy: Proxy) -> None:
        self._phalanx = phalanx
        self._lock = threading.Lock()
        self._writes, self._kills = 0, False
        self.done = threading.Event()
        proxy.after = self._after

    def arm(self, writes: int, *, kills: bool) -> None:
        """Strike after so many writes, at least one. `kills`: whether the scheduler is killed, and started again."""
        with self._lock:
            self._writes, self._kills = writes, kills
            self.done.clear()

    def disarm(self) -> None:
        """Do not strike any more."""
        with self._lock:
            self._writes = 0

    def _after(self, request: Request) -> None:
        if not any(each in request.path for each in ("/pods", "/gangs", "/podgroups")):
            return
        with self._lock:
            if self._writes == 1:
                self._hit()
            self._writes = max(0, self._writes - 1)

    def _hit(self) -> None:
        scheduler = self._phalanx.cluster.program("kube-scheduler")
        if self._kills:
            scheduler.kill()
        self._phalanx.submit(*rivals())
        if self._kills:
            scheduler.start()
        self.done.set()


def refused_between_bindings(recorder: Recorder, names: list[str]) -> list[str]:
    """Return the members that the scheduler refused after a sibling was bound: the gang was bound in two cycles."""
    started, refused = set[str](), list[str]()
    for event in recorder.events:
        if event.name in names:
            started |= {event.name} if bound(event) else set()
            if started and not bound(event) and event.type != "DELETED" and unschedulable(event.object):
                refused.append(event.name)
    return refused


@dataclass(frozen=True, slots=True)
class Round:
    """The result for one gang.

    `struck`, `killed`: whether the rivals came at the chosen write, and whether the scheduler was killed then. `early`:
    members that were bound before the last gate was removed. `refused`: members that the scheduler refused beside a
    bound one. `seconds`: from the first binding of a member to the last.
    """

    struck: bool
    killed: bool
    early: tuple[str, ...]
    refused: tuple[str, ...]
    seconds: float


def one_round(phalanx: Phalanx, strike: Strike, number: int, aim: tuple[int, bool]) -> Round:
    """Start a gang, let the rivals come at one of the leader's writes, and return the result. All pods are deleted.

    :param aim: after how many writes the rivals come, and whether the scheduler is killed then.
    """
    writes, kills = aim
    name, cluster = f"g{number}", phalanx.cluster
    names, hindering = numbered(name, SIZE), [each["metadata"]["name"] for each in rivals()]
    with phalanx.record() as recorder:
        phalanx.submit(gang(name, SIZE))
        phalanx.await_phase(name, "Waiting")
        strike.arm(writes, kills=kills)
        phalanx.submit(*members(name, SIZE))
        phalanx.wait(lambda: strike.done.is_set() or is_whole(recorder, names), "the rivals to come")
        strike.disarm()
        struck = strike.done.is_set()
        cluster.await_ready("kube-scheduler")
        # If the rivals came before the capacity was reserved, the gang starts when they are deleted.
        phalanx.wait(lambda: is_whole(recorder, names) or len(bound_of(recorder, hindering)) > LEFT, "a winner")
        for each in hindering if struck else ():
            delete_now(phalanx, each)
        phalanx.await_bound(names)
        phalanx.wait(lambda: is_whole(recorder, names), "the watch to report all bindings")
    assert {"schedulingGroup" in phalanx.pod(each)["spec"] for each in names} == {True}, name
    times = bound_of(recorder, names).values()
    early, refused = bound_before_the_last_gate(recorder, names), refused_between_bindings(recorder, names)
    for each in names:
        delete_now(phalanx, each)
    phalanx.wait(lambda: not phalanx.pods(), "the pods to be gone")
    return Round(struck, struck and kills, tuple(early), tuple(refused), max(times) - min(times))


def bound_of(recorder: Recorder, names: list[str]) -> dict[str, float]:
    """Return when each of these pods was bound, by name, in seconds of the monotonic clock."""
    found = dict[str, float]()
    for event in recorder.events:
        if event.name in names and bound(event):
            found.setdefault(event.name, event.at)
    return found


def is_whole(recorder: Recorder, names: list[str]) -> bool:
    """Whether all these pods were bound."""
    return len(bound_of(recorder, names)) == len(names)


def delete_now(phalanx: Phalanx, name: str) -> None:
    phalanx.cluster.request("DELETE", f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0")


def table(rounds: list[Round]) -> str:
    """Return the results as a table in Markdown."""
    figures = {
        "gangs": len(rounds),
        "rivals at a write": sum(each.struck for each in rounds),
        "scheduler kills": sum(each.killed for each in rounds),
        "bound before the last gate": sum(len(each.early) for each in rounds),
        "refused beside a bound member": sum(len(each.refused) for each in rounds),
        "longest, first binding to last": f"{max(each.seconds for each in rounds):.2f} s",
    }
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in (figures, ["---"] * len(figures), figures.values()))


@pytest.mark.long
@pytest.mark.timeout(600 + 60 * ROUNDS)
def test_many_gangs_under_rivals_and_scheduler_kills_are_bound_in_one_cycle_each(
    phalanxed: Phalanx, tmp_path: Path
) -> None:
    """Rivals of the same priority want each node. They come at every write of the leader, at one write for a gang.

    Not every release has the last write. A kill that was due there is made in the next round, at the first write.
    """
    cluster, rounds, tries = phalanxed.cluster, list[Round](), count()
    cluster.program("controller").kill()
    with Proxy(cluster.kubeconfig_for(SYSTEM_NAMESPACE, "phalanx-controller"), tmp_path) as proxy:
        strike = Strike(phalanxed, proxy)
        controller = phalanxed.deployment.start_controller(proxy.kubeconfig())
        for number in range(ROUNDS + KILLS):
            killed = sum(each.killed for each in rounds)
            if number >= ROUNDS and killed == KILLS:
                break
            kills = killed < min(KILLS, (number + 1) * KILLS // ROUNDS)
            writes = 1 + (next(tries) if kills else number) % WRITES
            rounds.append(one_round(phalanxed, strike, number, (writes, kills)))
            print(f"{number}: {rounds[-1]}", flush=True)  # noqa: T201 - the figures of the long run
        controller.terminate()
        controller.wait()
    phalanxed.deployment.start_controller()
    print(f"\n{table(rounds)}", flush=True)  # noqa: T201 - the table is what the command is for
    assert [each for each in rounds if each.early or each.refused] == []
    assert sum(each.killed for each in rounds) == KILLS
