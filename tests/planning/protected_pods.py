"""Random small clusters with pods that budgets and running gangs protect, and pending gangs that need their capacity.

`wrongs` checks all evictions independently of the planner: it reads the manifests only.
"""

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import scenes

from cluster.capturing import snapshot_of
from gangs.dialects.reading import read_all
from gangs.dialects.topologies import topologies
from gangs.sources import Sources
from kube.keys import GATE, GROUP
from planning.competing.promised_evictions import promised_by, with_promised
from planning.decision import Decision, Outcome
from planning.files.objects import read_objects
from planning.framing.running_gangs import running_gangs
from planning.planner import plan_all
from planning.planning_options import PlanningOptions

Manifest = dict[str, Any]

KINDS = ("sets", "sets", "sets", "number", "gone", "invalid", "koordinator")
POD_GROUP = "pod-group.scheduling.sigs.k8s.io"
GOING = "2026-01-01T00:00:00Z"


@dataclass
class Gang:
    """A running gang: its pods by set, the minimum of each set, and the minimum in all (None: all of its pods)."""

    name: str
    sets: dict[str, list[str]] = field(default_factory=dict)
    needs: dict[str, int] = field(default_factory=dict)
    minimum: int | None = None

    @property
    def pods(self) -> list[str]:
        """The names of the pods of all sets."""
        return [pod for pods in self.sets.values() for pod in pods]


@dataclass
class Instance:
    """All objects by kind and name, with the budgets and running gangs that protect pods."""

    objects: dict[str, Manifest]
    gangs: list[Gang]
    allowed: dict[str, int]
    """By budget: the number of evictions that it allows before the first eviction."""
    covers: dict[str, set[str]]
    """By budget: the names of the pods that it covers."""
    asking: list[str]
    """Names of the gangs that are not planned yet."""
    gone: set[str] = field(default_factory=set)
    """Names of all pods that any plan evicts."""
    faults: list[str] = field(default_factory=list)


def draw(seed: int) -> Instance:
    """Return a random instance. Equal seeds give equal instances."""
    return _Draw(Random(seed)).instance()  # noqa: S311 - instances are to be repeatable, not secret


class _Draw:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.made = Instance({}, [], {}, {}, [])

    def instance(self) -> Instance:
        sizes = {f"n{number}": self.random.choice((1, 2, 3)) for number in range(self.random.randint(3, 5))}
        for name, size in sizes.items():
            self.add(scenes.node(name, {scenes.label("rack"): "r"}, {"cpu": str(size)}))
        self.add(scenes.topology(("rack",)))
        gangs = [Gang(f"h{number}") for number in range(self.random.choice((0, 1, 1, 2)))]
        for node, size in sizes.items():
            for slot in range(size):
                if self.random.random() < 0.9:
                    self.running(f"{node}-{slot}", node, self.random.choice([*gangs, *gangs, None]))
        self.made.gangs = [gang for gang in gangs if gang.sets]
        for gang in self.made.gangs:
            self.describe(gang, self.random.choice(KINDS))
        for name in self.random.choice(((), ("one",), ("one",), ("one", "two"))):
            self.budget(name)
        for number in range(self.random.randint(2, 4)):
            self.asks(f"g{number}")
        return self.made

    def add(self, manifest: Manifest) -> None:
        self.made.objects[f"{manifest['kind']}/{manifest['metadata']['name']}"] = manifest

    def running(self, name: str, node: str, gang: Gang | None) -> None:
        pod_set = self.random.choice("ab") if gang else ""
        pod = scenes.running(name, node, gang=gang.name if gang else "", cpu=1, pod_set=pod_set)
        pod["metadata"]["uid"] = f"uid-{name}"
        pod["metadata"]["labels"] |= {each: "yes" for each in ("one", "two") if self.random.random() < 0.5}
        pod["status"] = {"phase": "Running"}
        self.add(pod)
        if gang is not None:
            gang.sets.setdefault(pod_set, []).append(name)

    def describe(self, gang: Gang, kind: str) -> None:
        """Add the gang's object, and set the minimums that follow from it."""
        counts = {name: len(pods) for name, pods in gang.sets.items()}
        least = {name: self.random.randint(0, count) for name, count in counts.items()}
        minimum = max(1, self.random.randint(0, len(gang.pods)))
        pods = [self.made.objects[f"Pod/{name}"] for name in gang.pods]
        if kind in {"sets", "invalid"}:
            sets = [{"name": name, "count": counts[name], "minCount": least[name]} for name in counts]
            self.add(scenes.gang(gang.name, minMember=minimum, podSets=sets))
            gang.needs, gang.minimum = least, minimum
        if kind == "invalid" and len(pods) > 1:
            pods[0]["spec"]["priority"] = 1
            gang.needs, gang.minimum = {}, None
        if kind == "number":
            for pod in pods:
                del pod["metadata"]["labels"]["phalanx.dev/pod-set"]
            self.add(scenes.gang(gang.name, minMember=minimum))
            gang.minimum = minimum
        if kind == "koordinator":
            for pod in pods:
                labels = pod["metadata"]["labels"]
                labels[POD_GROUP] = gang.name
                del labels["phalanx.dev/gang"], labels["phalanx.dev/pod-set"]
            group = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup"}
            self.add({**group, "metadata": {"name": gang.name, "namespace": "default"}, "spec": {"minMember": minimum}})
            gang.minimum = minimum

    def budget(self, name: str) -> None:
        covered = {
            each["metadata"]["name"]
            for each in self.made.objects.values()
            if each["kind"] == "Pod" and name in each["metadata"]["labels"]
        }
        most = self.random.choice((0, 1, 1, 1, 2))
        counted = most if self.random.random() < 0.6 else None
        how = self.random.choice(("maxUnavailable", "minAvailable"))
        value = most if how == "maxUnavailable" else max(0, len(covered) - most)
        self.add(scenes.budget(name, {name: "yes"}, allowed=counted, **{how: value}))
        self.made.covers[name], self.made.allowed[name] = covered, most

    def asks(self, name: str) -> None:
        count = self.random.choice((1, 1, 2))
        priority = self.random.choice((5, 10, 10, 20))
        self.add(scenes.gang(name, minMember=count))
        for pod in scenes.members(count, name, priority, cpu=self.random.choice((1, 1, 2))):
            pod["spec"]["schedulingGates"] = [{"name": GATE}]
            pod["metadata"]["uid"] = f"uid-{pod['metadata']['name']}"
            self.add(pod)
        self.made.asking.append(name)


def plan(instance: Instance, names: Iterable[str]) -> list[Decision]:
    """Plan these gangs and return the decisions.

    Record the victims in `instance.gone`. Record a fault for each victim whose priority is not lower than its gang's.
    """
    wanted = set(names)
    objects = read_objects(scenes.documents(list(instance.objects.values())))
    sources = Sources(objects.pods(), objects.manifests)
    reading, snapshot = read_all(sources), snapshot_of(objects.nodes(), sources.pods, budgets=objects.budgets())
    pending = [gang for gang in reading.gangs if gang.key.name in wanted]
    decisions = plan_all(
        pending,
        with_promised(snapshot, promised_by(sources.of_kind(GROUP, "Gang"))),
        topologies(sources)[0],
        PlanningOptions(running_gangs=running_gangs(reading)),
    )
    for decision in decisions:
        for each in decision.evictions:
            instance.gone.add(each.name)
            if decision.gang is None or each.priority >= decision.gang.priority:
                instance.faults.append(f"{each.name} goes for {decision.key}")
    return decisions


def carry_out(instance: Instance, decisions: Iterable[Decision], random: Random) -> Instance:
    """Return a copy of the instance after each plan has reached a random stage.

    The stages are: recorded in the Gang's status, evictions accepted by the API server, carried out.
    """
    after = copy.deepcopy(instance)
    for decision in decisions:
        if decision.outcome is Outcome.PLACED and decision.gang is not None:
            after.asking.remove(decision.key.name)
            _Stage(after, decision).reach(random.choice(("recorded", "recorded", "accepted", "carried out")))
    return after


class _Stage:
    """Brings the objects of one plan to a stage."""

    def __init__(self, instance: Instance, decision: Decision) -> None:
        self.objects, self.instance, self.decision = instance.objects, instance, decision

    def reach(self, stage: str) -> None:
        for each in self.decision.assignments:
            self._seat(self.objects[f"Pod/{each.member.pod.metadata.name}"], each.node, stage)
        if stage == "carried out":
            for victim in self.decision.evictions:
                self.objects.pop(f"Pod/{victim.name}", None)
        else:
            told = [
                {"namespace": each.namespace, "pod": each.name, "uid": each.uid, "node": each.node}
                for each in self.decision.evictions
            ]
            self.objects[f"Gang/{self.decision.key.name}"]["status"] = {"planId": "p", "victims": told}
        if stage != "recorded":
            self._count(stage)

    def _seat(self, pod: Manifest, node: str, stage: str) -> None:
        pod["metadata"]["annotations"] = {"phalanx.dev/planned-node": node}
        pod["status"] = {"nominatedNodeName": node}
        if stage == "carried out":
            pod["spec"]["nodeName"] = node

    def _count(self, stage: str) -> None:
        """Update the budgets as the API server does when it accepts an eviction. The pods may not show it yet."""
        for victim in self.decision.evictions:
            for budget, covered in self.instance.covers.items():
                if victim.name in covered:
                    self._take(self.objects[f"PodDisruptionBudget/{budget}"], budget, victim.name, stage)

    def _take(self, manifest: Manifest, budget: str, victim: str, stage: str) -> None:
        status = manifest.setdefault("status", {})
        if victim in status.get("disruptedPods", ()) or victim in status.get("taken", ()):
            return
        status["disruptionsAllowed"] = status.get("disruptionsAllowed", self.instance.allowed[budget]) - 1
        status.setdefault("taken", []).append(victim)
        if stage == "accepted":
            status.setdefault("disruptedPods", {})[victim] = GOING


def wrongs(instance: Instance) -> list[str]:
    """Return the faults of all evictions together: overdrawn budgets and gangs below their minimums."""
    found = list(instance.faults)
    for name, covered in instance.covers.items():
        if len(covered & instance.gone) > instance.allowed[name]:
            found.append(f"budget {name} allows {instance.allowed[name]}, and {covered & instance.gone} go")
    for gang in instance.gangs:
        left = {name: [pod for pod in pods if pod not in instance.gone] for name, pods in gang.sets.items()}
        remaining = sum(map(len, left.values()))
        if remaining in {0, len(gang.pods)}:
            continue
        short = {name for name, least in gang.needs.items() if len(left[name]) < least}
        if gang.minimum is None or remaining < gang.minimum or short:
            found.append(f"gang {gang.name} of {gang.sets} keeps {left}, and needs {gang.minimum} and {gang.needs}")
    return found
