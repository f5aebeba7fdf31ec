"""The cluster of the page's gallery: 1,024 nodes of 8 GPUs, forty gangs in all phases, queues and ended gangs.

Placed gangs fill racks one after the other. Times count back from the present, so that ages stay the same.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from manual_clock import ManualClock
from pictures import Manifest, StillPicture, node, pod, topology

from kube.keys import GATE
from webhook.live_view.history import History

GPU = "nvidia.com/gpu"
KUEUE = "kueue.x-k8s.io"
SPINES, BLOCKS, RACKS, NODES = 4, 4, 8, 8
"""Spines, blocks in a spine, racks in a block, nodes in a rack."""
TEAMS = ("team-a", "team-b", "team-c", "research")
QUOTAS = {"team-a": 1800, "team-b": 2000, "team-c": 1200, "research": 160}
"""GPUs of each team's queue."""
RUNNING = (
    *(("team-a", f"pretrain-{at}", size) for at, size in enumerate((64, 48, 32, 24, 16, 16, 8, 8))),
    *(("team-b", f"finetune-{at}", size) for at, size in enumerate((64, 56, 32, 16, 16, 8, 8, 4))),
    *(("team-c", f"embed-{at}", size) for at, size in enumerate((32, 24, 8, 8, 4, 4))),
    *(("research", f"ablation-{at}", size) for at, size in enumerate((8, 4, 4, 2, 2))),
    ("team-b", "crawl", 64),
    ("team-c", "simulate", 48),
)
"""Namespace, name and pods of the running gangs. Each pod fills a node."""
BOUND = 4
"""Pods of the gang that is being released which are bound already."""
NOW = datetime.now(UTC)


def ago(**parts: float) -> str:
    """Return a time before the present (RFC 3339)."""
    return (NOW - timedelta(**parts)).strftime("%Y-%m-%dT%H:%M:%SZ")


def place(at: int) -> tuple[str, str, str]:
    """Return spine, block and rack of a node."""
    rack, block = at // NODES, at // (NODES * RACKS)
    spine = f"s{block // BLOCKS}"
    return spine, f"{spine}b{block % BLOCKS}", f"{spine}b{block % BLOCKS}r{rack % RACKS}"


def nodes() -> list[Manifest]:
    """The nodes. Two are cordoned."""
    found = []
    for at in range(SPINES * BLOCKS * RACKS * NODES):
        spine, block, rack = place(at)
        made = node(f"{rack}n{at % NODES}", spine=spine, block=block, rack=rack)
        made["status"]["allocatable"] = {"cpu": "192", "memory": "2Ti", "pods": "110", GPU: "8"}
        if at in (611, 1007):
            made["spec"] = {"unschedulable": True}
        found.append(made)
    return found


def conditions(**at: str) -> list[dict[str, str]]:
    """Conditions that became True at these times."""
    return [
        {"type": name.capitalize(), "status": "True", "lastTransitionTime": time, "message": ""}
        for name, time in at.items()
    ]


class Scene:
    """The objects and pods of the gallery."""

    def __init__(self) -> None:
        self.nodes = nodes()
        self.objects: list[Manifest] = [topology("spine", "block", "rack"), *_queues()]
        self.pods: list[Manifest] = []
        self._next = count()
        self._uid = count()

    def picture(self) -> StillPicture:
        """Return the cluster view."""
        for at, (namespace, name, size) in enumerate(RUNNING):
            self.run(namespace, name, size, hours=2 + 3 * at)
            if at % 5 == 4:
                self.skip(3)
        self.others()
        self.move()
        self.wait()
        return StillPicture(self.objects, nodes=self.nodes, pods=self.pods, namespaces={team: {} for team in TEAMS})

    def skip(self, nodes: int) -> None:
        """Leave nodes free."""
        for _ in range(nodes):
            next(self._next)

    def take(self, size: int) -> list[int]:
        """Return the next nodes that are not cordoned."""
        return [at for at, _ in zip(self._open(), range(size), strict=False)]

    def gang(self, namespace: str, name: str, spec: Manifest, created: str, **status: Any) -> None:
        """Add a Gang object in the team's queue."""
        meta: Manifest = {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{next(self._uid)}",
            "creationTimestamp": created,
        }
        if status.get("phase") == "Placed":
            meta["annotations"] = {"phalanx.dev/expected-duration": "240h"}
        body = {"metadata": meta, "spec": {"queue": namespace, **spec}, "status": status}
        self.objects.append({"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", **body})

    def member(self, namespace: str, gang: str, index: int, created: str, gpus: int = 8, **spec: Any) -> Manifest:
        """Add a pod of a gang."""
        labels = {"phalanx.dev/gang": gang, f"{KUEUE}/queue-name": namespace}
        made = pod(f"{gang}-{index}", labels=labels, namespace=namespace, **spec)
        made["metadata"] |= {"uid": f"pod-{next(self._uid)}", "creationTimestamp": created}
        requests = {GPU: str(gpus), "cpu": str(20 * gpus)}
        made["spec"]["containers"] = [{"name": "main", "image": "pause", "resources": {"requests": requests}}]
        made["status"] = {"phase": "Running"} if spec.get("nodeName") else {}
        self.pods.append(made)
        return made

    def run(self, namespace: str, name: str, size: int, hours: float) -> None:
        """Add a gang that runs."""
        taken, created, began = self.take(size), ago(hours=hours, minutes=4), ago(hours=hours)
        for index, at in enumerate(taken):
            self.member(namespace, name, index, created, nodeName=self._name(at))
        racks = len({place(at)[2] for at in taken})
        where = " / ".join(dict.fromkeys(place(taken[0])[: 3 if racks == 1 else 2]))
        self.gang(
            namespace,
            name,
            {"minMember": size, "preferred": "rack", "podSets": [{"name": "main", "count": size, "minCount": size}]},
            created,
            phase="Placed",
            reason="AllBound",
            message=f"{size} pods are bound in {where}",
            proof="Optimal",
            members={"expected": size, "existing": size, "bound": size},
            objective=[{"goal": "compactness/rack", "value": racks, "bound": racks}],
            conditions=conditions(complete=created, planned=began, released=began, placed=began),
        )

    def others(self) -> None:
        """Add single pods that use parts of nodes. Every fifth node stays free."""
        partly = [at for at in range(next(self._next), len(self.nodes)) if at % 5]
        for index, at in enumerate(partly):
            made = pod(f"notebook-{index}", namespace="research", nodeName=self._name(at))
            requests = {GPU: str(2 + index % 6)}
            made["spec"]["containers"] = [{"name": "main", "image": "pause", "resources": {"requests": requests}}]
            self.pods.append(made)

    def move(self) -> None:
        """Add a gang with reserved capacity, one that evicts, and one that is being released."""
        created = ago(minutes=3)
        for index, at in enumerate(self.free(3)[-8:]):
            made = self.member("team-c", "sweep", index, created, 2, schedulingGates=[{"name": GATE}])
            made["status"] = {"nominatedNodeName": self._name(at)}
        self._moving("team-c", "sweep", 8, created, "Nominated", "RoomHeld", "room is held for 8 pods")
        victims, taken = [], self.free(3)[:8]
        for index, at in enumerate(taken):
            made = pod(f"batch-{index}", namespace="team-b", nodeName=self._name(at))
            made["metadata"]["deletionTimestamp"] = ago(seconds=20)
            made["spec"]["containers"] = [{"name": "main", "image": "pause", "resources": {"requests": {GPU: "4"}}}]
            self.pods.append(made)
            entry = {"namespace": "team-b", "pod": f"batch-{index}", "node": self._name(at), "priority": 0}
            victims.append({**entry, "gang": None})
        for index in range(8):
            made = self.member("team-a", "incident", index, created, 4, schedulingGates=[{"name": GATE}], priority=1000)
            made["status"] = {"nominatedNodeName": self._name(taken[index])}
        self._moving(
            "team-a", "incident", 8, created, "Evicting", "VictimsLeaving", "waits for 8 victims to go", victims=victims
        )
        for index, at in enumerate(self.free(2)[:6]):
            where = {"nodeName": self._name(at)} if index < BOUND else {}
            self.member("team-b", "serve", index, created, 4, **where)
        self._moving("team-b", "serve", 6, created, "Released", "Binding", "4 of 6 pods are bound")

    def wait(self) -> None:
        """Add gangs that wait for capacity, quota and pods, and one that can never fit."""
        self._waiting("research", "mega", 12, "NeverFits", "Unplaceable", 50, required="rack", nodes_of=NODES)
        self._waiting("team-a", "eval", 16, "NoRoom", "Unplaceable", 41, required="block")
        self._waiting("team-b", "scale-up", 48, "NoRoom", "Unplaceable", 12, required="block")
        self._waiting("team-c", "rlhf", 8, "NoRoom", "Unplaceable", 6, required="rack")
        self._waiting("research", "sweep", 4, "QuotaExhausted", "Waiting", 25)
        self._waiting("research", "probe", 8, "QuotaExhausted", "Waiting", 9)
        self._waiting("research", "distill", 2, "QuotaExhausted", "Waiting", 2)
        self._waiting("team-c", "resume", 6, "MembersMissing", "Waiting", 4, existing=3)
        self._waiting("team-a", "fresh", 4, "NotPlannedYet", "Waiting", 0.1)

    def _moving(self, namespace: str, name: str, size: int, created: str, *texts: str, **status: Any) -> None:
        phase, reason, message = texts
        spec = {"minMember": size, "required": "rack", "podSets": [{"name": "main", "count": size, "minCount": size}]}
        planned = conditions(complete=created, planned=ago(seconds=40))
        more = {"members": {"expected": size}, "proof": "Optimal", "conditions": planned, **status}
        self.gang(namespace, name, spec, created, phase=phase, reason=reason, message=message, **more)

    def _waiting(
        self,
        namespace: str,
        name: str,
        size: int,
        reason: str,
        phase: str,
        minutes: float,
        *,
        required: str = "",
        existing: int = 0,
        nodes_of: int = 0,
    ) -> None:
        created = ago(minutes=minutes)
        for index in range(existing or size):
            self.member(namespace, name, index, created, schedulingGates=[{"name": GATE}])
        spec = {"minMember": size, **({"required": required} if required else {})}
        spec["podSets"] = [{"name": "main", "count": size, "minCount": size}]
        near = list(self._nearest(size, required)) if reason == "NoRoom" else []
        best: Manifest = near[0] if near else {"path": [], "fits": nodes_of}
        message = {
            "QuotaExhausted": f"waits for quota: queue {namespace} lacks {8 * size} {GPU}",
            "MembersMissing": f"waits for {size - existing} more pods: {existing} of {size} exist",
            "NotPlannedYet": "waits for its plan",
            "NeverFits": f"needs {size} pods in one rack: no rack has more than {nodes_of} nodes",
            "NoRoom": f"needs {size} pods in one {required}: {'/'.join(best['path'])} fits {best['fits']} of {size}",
        }[reason]
        explanation: Manifest = {"nearest": near} if near else {}
        if required:
            explanation["wouldFitIf"] = _remedies(size, best, required)
        known: Manifest = {"members": {"expected": size, "existing": existing or size}, "explanation": explanation}
        proof = {"proof": "Infeasible"} if phase == "Unplaceable" else {}
        known["conditions"] = conditions(**({} if existing else {"complete": created}))
        self.gang(namespace, name, spec, created, phase=phase, reason=reason, message=message, **known, **proof)

    def free(self, spine: int) -> list[int]:
        """Return the nodes of a spine that no pod uses or will use."""
        used = {each["spec"].get("nodeName") or each.get("status", {}).get("nominatedNodeName") for each in self.pods}
        size = BLOCKS * RACKS * NODES
        within = range(spine * size, (spine + 1) * size)
        return [at for at in within if "spec" not in self.nodes[at] and self._name(at) not in used]

    def _nearest(self, size: int, level: str) -> Iterator[Manifest]:
        """Yield the domains of a level with most free nodes."""
        depth = ("spine", "block", "rack").index(level) + 1
        found = Counter(place(at)[:depth] for spine in range(SPINES) for at in self.free(spine))
        total = NODES * (RACKS if level == "block" else 1)
        for path, fits in found.most_common(4):
            excluded = {f"Insufficient {GPU}": total - fits}
            yield {"level": level, "path": path, "fits": fits, "needed": size, "nodes": total, "excluded": excluded}

    def _open(self) -> Iterator[int]:
        for at in self._next:
            if "spec" not in self.nodes[at]:
                yield at

    def _name(self, at: int) -> str:
        return str(self.nodes[at]["metadata"]["name"])


def _remedies(size: int, best: Manifest, level: str) -> list[str]:
    fits, where, wider = best["fits"], "/".join(best["path"]), {"block": "spine", "rack": "block"}[level]
    more = size - fits
    remedies = [f"{more} more pod slot{'s' if more > 1 else ''} in {where}"] if where else []
    return [*remedies, f"a minimum of {fits} instead of {size}", f"required level {level} widened to {wider}"]


def _queues() -> Iterator[Manifest]:
    yield {"apiVersion": f"{KUEUE}/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "gpu-nodes"}, "spec": {}}
    for name, gpus in QUOTAS.items():
        quota = {"name": GPU, "nominalQuota": str(gpus)}
        groups = [{"coveredResources": [GPU], "flavors": [{"name": "gpu-nodes", "resources": [quota]}]}]
        cohort = {} if name == "research" else {"cohortName": "ml"}
        spec = {"namespaceSelector": {}, **cohort, "resourceGroups": groups}
        yield {"apiVersion": f"{KUEUE}/v1beta2", "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}
        local = {"name": name, "namespace": name}
        spec = {"clusterQueue": name}
        yield {"apiVersion": f"{KUEUE}/v1beta2", "kind": "LocalQueue", "metadata": local, "spec": spec}


ENDED = (
    ("team-b", "tokenize", 16, 0.2, 2.2, 9, "QuotaExhausted", "Complete"),
    ("team-a", "finetune-1", 8, 1.1, 6.0, 38 * 60, "NoRoom", "Complete"),
    ("team-a", "eval-nightly", 4, 3.0, 0.4, 70, "NoRoom", "Complete"),
    ("research", "ablation-9", 4, 4.0, 1.5, 25 * 60, "QuotaExhausted", "Failed"),
    ("team-c", "embed-all", 24, 5.0, 9.0, 130, "NoRoom", "Complete"),
    ("team-b", "warm-up", 2, 6.5, 0.1, 3, "NoRoom", "Complete"),
)
"""Namespace, name, pods, hours since the end, hours of the run, seconds of the wait, its reason, and how it ended."""


def history() -> History:
    """Return the record of gangs that have ended."""
    clock, moving = ManualClock(), _Moving()
    record = History(moving, clock=clock)
    for gang in sorted(ENDED, key=lambda each: -each[3]):
        for hours, shown in _course(gang):
            clock.set_wall(NOW - timedelta(hours=hours))
            moving.show(*shown)
            record.look()
    clock.set_wall(NOW)
    return record


class _Moving(StillPicture):
    """A cluster view whose objects change."""

    def show(self, objects: Sequence[Manifest], pods: Sequence[Manifest]) -> None:
        """Show these objects and pods from now on."""
        vars(self).update(vars(StillPicture(objects, pods=pods)))


def _course(gang: tuple[Any, ...]) -> Iterator[tuple[float, tuple[list[Manifest], list[Manifest]]]]:
    """Yield the hours before the present at which an ended gang changed, and what the cluster showed then."""
    namespace, name, size, since, ran, waited, reason, end = gang
    created, began = since + ran + waited / 3600, since + ran
    meta = {"name": name, "namespace": namespace, "uid": f"job-{name}"}
    job: Manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {}, "status": {}}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"job-{name}"}
    shown = {**meta, "uid": f"gang-{name}", "creationTimestamp": ago(hours=created), "ownerReferences": [owner]}
    pods = [pod(f"{name}-{at}", namespace=namespace, labels={"phalanx.dev/gang": name}) for at in range(size)]
    for each in pods:
        each["spec"]["containers"] = [{"name": "main", "image": "pause", "resources": {"requests": {GPU: "8"}}}]

    def state(**status: Any) -> list[Manifest]:
        spec = {"queue": namespace}
        body = {"metadata": shown, "spec": spec, "status": {"members": {"expected": size}, **status}}
        return [{"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", **body}, job]

    yield created, (state(phase="Waiting", reason=reason), pods)
    bound = [{**each, "spec": {**each["spec"], "nodeName": f"n{at}"}} for at, each in enumerate(pods)]
    placed = {"phase": "Placed", "reason": "AllBound", "conditions": conditions(placed=ago(hours=began))}
    yield began, (state(**placed, summary={"domain": "s0 / s0b1"}), bound)
    ended = {"type": end, "status": "True", "lastTransitionTime": ago(hours=since)}
    over = {**job, "status": {"completionTime": ago(hours=since), "conditions": [ended]}}
    yield since, ([over], [])
    yield since - 0.02, ([over], [])
