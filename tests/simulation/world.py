"""The simulated cluster: API server, models and controllers, in one logical time."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from random import Random
from typing import Any

from local_api.resources import CLAIMS, FOR_DEVICES, PODS, RESOURCES, address
from local_api.server import LocalApi
from local_api.store import Event, Object, RefusedError, Store
from node_manifests import node_manifest

from simulation.candidate import Candidate
from simulation.choices import Choices
from simulation.clock import LogicalClock, MachineClock
from simulation.engine import Action, Engine
from simulation.invariants import Invariants
from simulation.models import devices
from simulation.models.budgets import DisruptionController
from simulation.models.devices import Allocator, ClaimController
from simulation.models.jobs import JobController
from simulation.models.kubelets import Kubelets
from simulation.models.leader_worker_sets import LeaderWorkerSetController
from simulation.models.scheduler import Scheduler
from simulation.models.stateful_sets import StatefulSetController
from simulation.models.workloads import gated
from simulation.network import RESTART_SECONDS, Network, Process
from simulation.objects import GANG_LABEL, PINNED, gang_of
from simulation.watches import WatchHub
from simulation.webhook import Webhook

RACK = "example.com/rack"
NAMESPACE = "default"
PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
SYSTEM_PODS_PATH = "/api/v1/namespaces/phalanx-system/pods"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
QUEUE = "q"
"""The LocalQueue of the schedules that have one."""
LENDER = "lender"
"""The second LocalQueue of the schedules that have a cohort."""
GANGS_PATH = f"/apis/phalanx.dev/v1alpha1/namespaces/{NAMESPACE}/gangs"
NODES_PATH = "/api/v1/nodes"
CLASSES: Mapping[str, int] = {"phalanx-probe": -1, "low": 1, "middle": 100, "high": 1000}
MERGE = "application/merge-patch+json"


class World:
    """One simulated cluster. `allowed`: as in `Choices`. `forgets`: whether its scheduler is older than 1.37."""

    def __init__(self, seed: int, allowed: frozenset[str] | None = None, *, forgets: bool = False) -> None:
        self.forgets = forgets
        self.choices = Choices(seed, allowed)
        self.clock = LogicalClock()
        self.engine = Engine(self.clock)
        self.trace: list[str] = []
        self.counts: Counter[str] = Counter()
        """How often a model or an invariant met what it is there for, by description."""
        self.api = LocalApi(store=Store(clock=self.clock, random=Random(seed)))  # noqa: S311 - a seed is to be replayed
        self.hub = WatchHub(self.api, self.engine, self.choices)
        self.network = Network(self.api, self.engine, self.choices, self.note)
        self.kubelets = Kubelets(self.api, self.engine, self.choices)
        self.jobs = JobController(self.api, self.engine, self.choices)
        self.stateful_sets = StatefulSetController(self.api, self.engine, self.choices)
        self.groups = LeaderWorkerSetController(self.api, self.engine, self.choices)
        self.budgets = DisruptionController(self.api, self.engine, self.choices)
        self.claims = ClaimController(self.api, self.engine, self.choices)
        self.scheduler = Scheduler(self.hub, Process("scheduler", self.engine), self.choices, forgets=forgets)
        self.webhook: Webhook | None = None
        """The process that admits new pods; None: each member is gated, and nothing else."""
        self.invariants = Invariants(self)
        self.candidates: dict[str, Candidate] = {}
        self.machines: dict[str, MachineClock] = {}
        self.plan_weights: tuple[int, ...] = (1, 0, 0)
        self.restart_weights: tuple[int, ...] = (1, 0, 0, 0)
        self.restarting = True
        """Whether a crashed controller is started again."""
        self.on_event: Callable[[Event], None] = lambda _event: None
        """Sees every change of the store: directed schedules act there."""
        self._seen = 0
        self._failures = Failures()
        self.engine.after_each = self.settle
        self.network.on_sent = self.invariants.sent
        self.network.on_fault = lambda seconds: self.invariants.disturbed(self.engine.now + seconds)

    @contextmanager
    def watching_for_failures(self) -> Iterator[None]:
        """Within it, internal errors that product code logs are violations."""
        logger = logging.getLogger()
        logger.addHandler(self._failures)
        try:
            yield
        finally:
            logger.removeHandler(self._failures)

    def note(self, text: str) -> None:
        """Write a line of the trace."""
        self.trace.append(f"{self.engine.now:9.3f} {text}")

    def settle(self) -> None:
        """Let models and watches see what has changed, and check the invariants on it."""
        history = self.api.store.history
        if self._seen == len(history):
            return
        while self._seen < len(history):
            event = history[self._seen]
            self._seen += 1
            self.kubelets.see(event)
            self.jobs.see(event)
            self.stateful_sets.see(event)
            self.groups.see(event)
            self.budgets.see(event)
            self.claims.see(event)
            self.invariants.see(event)
            self._note_event(event)
            self.on_event(event)
        self.hub.pass_on()

    def _note_event(self, event: Event) -> None:
        if event.resource.plural in ("events", "leases"):
            return
        meta, more = event.object["metadata"], ""
        if event.resource == PODS:
            spec, status = event.object["spec"], event.object["status"]
            more = " ".join(
                each
                for each in (
                    "gated" if spec.get("schedulingGates") else "",
                    f"on {spec['nodeName']}" if spec.get("nodeName") else "",
                    f"→{status['nominatedNodeName']}" if status.get("nominatedNodeName") else "",
                    "terminating" if "deletionTimestamp" in meta else "",
                    status.get("phase", ""),
                )
                if each
            )
        elif event.resource == CLAIMS:
            found = devices.devices_of(event.object)
            users = [each["name"] for each in devices.consumers_of(event.object)]
            more = f"{' '.join(map('/'.join, found))} for {', '.join(users)}" if found or users else ""
        elif event.resource.plural == "gangs":
            status = event.object.get("status") or {}
            more = f"{status.get('phase', '')} {status.get('message', '')}"
        self.note(f"    {event.kind.lower()} {event.resource.plural} {meta['name']} {more}")

    def furnish(
        self, nodes: Mapping[str, tuple[str, int]], *, devices_of_node: int = 0, shared_devices: bool = False
    ) -> None:
        """Create namespaces, a topology of racks, priority classes, and nodes: by name, the rack and the cpus.

        `devices_of_node`: how many devices each node has; 0: the API server serves nothing about devices.
        `shared_devices`: whether claims share them.
        """
        if devices_of_node:
            self.api.served = (*RESOURCES, *FOR_DEVICES)
            self.scheduler.allocator = Allocator(self.api)
            devices.furnish(self.api, nodes, devices_of_node, shared=shared_devices)
        names = ("default", "phalanx-system")
        self.api.create("/api/v1/namespaces", *({"metadata": {"name": each}} for each in names))
        levels = [{"name": "rack", "nodeLabel": RACK}]
        topology = {"metadata": {"name": "dc"}, "spec": {"levels": levels}}
        self.api.create("/apis/phalanx.dev/v1alpha1/topologies", topology)
        classes = ({"metadata": {"name": name}, "value": value} for name, value in CLASSES.items())
        self.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", *classes)
        for name, (rack, cpu) in nodes.items():
            self.api.create(NODES_PATH, {"spec": {}, **node_manifest(name, {RACK: rack}, cpu)})
        self.scheduler.start()
        self.settle()

    def queue(self, cpu: int, *names: str) -> None:
        """Create the queue `QUEUE`, whose ClusterQueue has a quota of so many cpu on any node.

        :param names: of further queues with the same quota. All queues are then in one cohort, and may borrow all of
            its quota from each other.
        """
        self.api.create(f"{KUEUE}/resourceflavors", {"metadata": {"name": "any"}, "spec": {}})
        flavor = {"name": "any", "resources": [{"name": "cpu", "nominalQuota": cpu}]}
        groups = [{"coveredResources": ["cpu"], "flavors": [flavor]}]
        pool = {"namespaceSelector": {}, "resourceGroups": groups, **({"cohortName": "all"} if names else {})}
        for name in (QUEUE, *names):
            self.api.create(f"{KUEUE}/clusterqueues", {"metadata": {"name": name}, "spec": pool})
            local = {"metadata": {"name": name}, "spec": {"clusterQueue": name}}
            self.api.create(f"{KUEUE}/namespaces/{NAMESPACE}/localqueues", local)
        self.settle()

    def start_webhook(self) -> Webhook:
        """Let a webhook admit new pods from now on. Return it."""
        clock = self.machines.setdefault("w1", MachineClock(self.clock))
        self.webhook = Webhook("w1", self.engine, self.network, self.hub, self.choices, clock)
        self.webhook.start()
        for controller in (self.jobs, self.stateful_sets, self.groups):
            controller.create = self.create
        return self.webhook

    def create(self, pod: Object, refused: Action) -> None:
        """Create a pod through the webhook. If it refuses the pod, or does not answer, act a second later.

        The API server does not call the webhook for a pod of no gang (docs/decisions/0003).
        """
        assert self.webhook is not None
        if not self.webhook.answers:
            if gang_of(pod):
                self.counts["members that the API server refused without a webhook"] += 1
                self.engine.after(1.0, refused)
            else:
                self.ask("POST", PODS_PATH, pod)
            return
        priority = CLASSES.get(pod["spec"].get("priorityClassName", ""), 0)  # the plugin Priority runs before webhooks
        admitted = self.webhook.admitted({**pod, "spec": {**pod["spec"], "priority": priority}})
        self.counts["pods that the webhook admitted" if admitted else "pods that the webhook refused"] += 1
        if admitted is None:
            self.engine.after(1.0, refused)
            return
        if PINNED in (admitted["metadata"].get("annotations") or {}):
            self.counts["pods that the webhook pinned beside siblings"] += 1
        self.engine.run_until(self.engine.now + self.webhook.review_seconds())
        self.ask("POST", PODS_PATH, admitted)

    def start(self, *names: str) -> None:
        """Start controllers."""
        for name in names:
            machine = self.machines.setdefault(name, MachineClock(self.clock))
            self._start(name, name, machine)

    def _start(self, base: str, name: str, machine: MachineClock) -> None:
        def ended(candidate: Candidate) -> None:
            if self.restarting:
                seconds = self.choices.one_of(f"{base}/restart", RESTART_SECONDS, self.restart_weights)
                if not any(each.process.alive for each in self.candidates.values()):
                    self.invariants.disturbed(self.engine.now + seconds)  # until then there is no controller
                count = int(candidate.process.name.partition(".")[2] or 1) + 1
                self.engine.after(seconds, lambda: self._start(base, f"{base}.{count}", machine))

        candidate = Candidate(
            name,
            self.engine,
            self.network,
            self.hub,
            self.choices,
            machine,
            self.note,
            ended,
            self._busy,
            self.invariants.reconciled,
        )
        candidate.plan_weights, candidate.forgets = self.plan_weights, self.forgets
        self.candidates[base] = candidate
        candidate.start()

    def _busy(self, text: str) -> None:
        self.invariants.violated("busy", text)

    @property
    def leader(self) -> Candidate | None:
        """The candidate that leads, or believes that it does."""
        return next((each for each in self.candidates.values() if each.leading), None)

    def run(self, seconds: float) -> None:
        """Run everything that is due within so many seconds."""
        self.settle()
        self.engine.run_until(self.engine.now + seconds)

    def run_until(self, holds: Callable[[], object], seconds: float, step: float = 0.05) -> bool:
        """Run until `holds` returns true, for at most so many seconds. Return whether it does."""
        self.settle()
        end = self.engine.now + seconds
        while not holds() and self.engine.now < end:
            self.engine.run_until(min(end, self.engine.now + step))
        return bool(holds())

    def ask(self, method: str, path: str, body: Any = None, content_type: str = MERGE) -> Object | None:
        """Ask as a user; None if the API server refuses."""
        answer = None
        with suppress(RefusedError):
            answer = self.api.ask(method, path, body, content_type)
        self.settle()
        return answer

    def gang(self, name: str, members: int, *, create: bool = True, **spec: Any) -> None:
        """A user's Gang of so many members in one rack."""
        if create:
            whole = {"minMember": members, "required": "rack", "topology": "dc", **spec}
            self.ask("POST", GANGS_PATH, {"metadata": {"name": name}, "spec": whole})

    def pod(
        self,
        name: str,
        of: str = "",
        *,
        cpu: int = 4,
        priority: str = "",
        labels: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """A user's pod, as the webhook admits it: gated if it is a member of a gang. `labels`: of a pod of no gang."""
        container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": str(cpu)}}}
        labels = {GANG_LABEL: of} if of else {"app": name, **(labels or {})}
        named = {"priorityClassName": priority} if priority else {}
        manifest = {
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
            "spec": {"containers": [container], **named, **spec},
        }
        if self.webhook is not None:
            self._apply(manifest)
        else:
            self.ask("POST", PODS_PATH, gated(manifest) if of else manifest)

    def _apply(self, manifest: Object, tries: int = 3) -> None:
        """Create a user's pod. The user tries again if the webhook refuses it, so many times in all."""
        if tries:
            self.create(manifest, lambda: self._apply(manifest, tries - 1))

    def get(self, name: str) -> Object | None:
        """A pod in the user's namespace, as it is."""
        return self.api.store.objects.get((PODS, NAMESPACE, name))

    def pods(self) -> list[Object]:
        """All pods."""
        return [each for (resource, _, _), each in self.api.store.objects.items() if resource == PODS]

    def status_of(self, gang: str) -> Object:
        """The status of a Gang."""
        found = address(f"{GANGS_PATH}/{gang}")
        assert found is not None
        thing = self.api.store.objects.get((found.resource, NAMESPACE, gang))
        return (thing or {}).get("status") or {}

    def failures(self) -> list[str]:
        """The internal errors of product code so far."""
        return self._failures.texts


class Failures(logging.Handler):
    """Collects what product code logs as an internal error, with its exception."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one record."""
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            self.texts.append(f"{record.getMessage()}: {type(error).__name__}: {error}")
